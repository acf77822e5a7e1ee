"""The page of the plans says what the tests know, and the plans have the modules that the suite has."""

import re

import pytest

from tokens.oauth.tests.openid.page import PAGE, page
from tokens.oauth.tests.openid.plans import PLANS
from tokens.oauth.tests.openid.registry import Plan

#: Modules of each plan in release 5.2.4, for the variants that the page names.
NUMBERS = {
    ("oidcc-config-certification-test-plan", ""): 1,
    ("oidcc-basic-certification-test-plan", ""): 38,
    ("oidcc-formpost-basic-certification-test-plan", ""): 38,
    ("oidcc-rp-initiated-logout-certification-test-plan", ""): 11,
    ("oidcc-backchannel-rp-initiated-logout-certification-test-plan", ""): 2,
    ("oidcc-dynamic-certification-test-plan", ""): 23,
    ("fapi2-security-profile-final-test-plan", ""): 56,
    ("fapi2-security-profile-final-test-plan", "sender_constrain=mtls"): 7,  # those that differ
    ("fapi2-security-profile-final-test-plan", "client_auth_type=mtls"): 7,
    ("fapi2-message-signing-final-test-plan", ""): 70,
}


def test_the_page_is_the_one_the_plans_make() -> None:
    """Run `python -m tokens.oauth.tests.openid.page` after a change."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_plan_is_counted() -> None:
    """A plan that is added says how many modules the suite has for it."""
    assert [(plan.name, plan.variant) for plan in PLANS] == list(NUMBERS)


@pytest.mark.parametrize("plan", PLANS, ids=[plan.title for plan in PLANS])
def test_a_plan_has_all_modules_of_the_suite(plan: Plan) -> None:
    """Each once, with a sentence that says what it checks, and not both a warning and skipped."""
    names = [one.name for one in plan.modules]
    assert len(names) == len(set(names)) == NUMBERS[plan.name, plan.variant]
    assert all(re.fullmatch(r"(?:oidcc|fapi2)-[\w-]+", name) for name in names)
    for one in plan.modules:
        assert one.checks.endswith(".")
        assert sum(map(bool, (one.warning, one.skipped, one.failed))) <= 1, one.name
        assert "|" not in one.checks + one.reason


def test_no_plan_claims_a_certificate() -> None:
    """That is the Foundation's to give."""
    assert "certified" not in PAGE.read_text(encoding="utf-8").lower()
