"""Filters of every list in the admin: a value that is not offered is told about, and shows nothing as if filtered."""

from collections.abc import Callable

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse

from accounts.users.models import User
from ironauth.infrastructure.admin.lists import KnownValues

pytestmark = pytest.mark.django_db

#: Every list with a filter of this product's own, and a value that the filter offers.
OFFERED = [
    ("accounts_user", "being_deleted", "no"),
    ("accounts_user", "factor", "no"),
    ("accounts_auditevent", "event", "sign_in"),
    ("accounts_auditevent", "outcome", "failure"),
    ("accounts_auditevent", "hours", "24"),
    ("accounts_outgoingmail", "state", "waiting"),
    ("accounts_invitation", "state", "waiting"),
    ("tokens_session", "state", "ended"),
    ("tokens_oauthclient", "state", "disabled"),
    ("tokens_registrationtoken", "state", "used_up"),
]
NOTICE = "cannot be filtered by"


@pytest.fixture
def browser(new_email: Callable[[], str]) -> Client:
    """A superuser's browser."""
    client = Client()
    client.force_login(User.objects.create_superuser(new_email()))
    return client


@pytest.mark.parametrize(("name", "parameter", "offered"), OFFERED)
def test_values_that_are_not_offered_are_refused(browser: Client, name: str, parameter: str, offered: str) -> None:
    """One that is filters; another leads to the whole list, which says that it is."""
    address = reverse(f"admin:{name}_changelist")
    answer = browser.get(address, {parameter: offered})
    assert answer.status_code == 200
    assert answer.context["cl"].has_active_filters
    assert NOTICE not in answer.content.decode()
    for wrong in ("nonsense", "", "\x00", offered.upper() + "x"):
        answer = browser.get(address, {parameter: wrong})
        assert (answer.status_code, answer.headers["Location"]) == (302, f"{address}?e=1"), wrong
    assert NOTICE in browser.get(f"{address}?e=1").content.decode()
    assert browser.post(f"{address}?{parameter}=nonsense", {"select_across": "1"}).status_code == 302


def test_no_list_has_a_filter_that_takes_any_value() -> None:
    """Those above are all of the simple filters there are, and each is one of ``KnownValues``."""
    simple = {
        (f"{model._meta.app_label}_{model._meta.model_name}", one.parameter_name)
        for model, model_admin in admin.site._registry.items()
        for one in model_admin.list_filter
        if isinstance(one, type) and issubclass(one, admin.SimpleListFilter)
        if issubclass(one, KnownValues) or pytest.fail(f"{one} takes any value")
    }
    assert simple == {(name, parameter) for name, parameter, _ in OFFERED}


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("accounts_user", "is_active__exact=nonsense"),
        ("accounts_user", "email_verified_at__isempty=2"),
        ("accounts_user", "groups__id__exact=nonsense"),
        ("accounts_user", "created_at__gte=nonsense"),
        ("accounts_outgoingmail", "user__id__exact=nonsense"),
        ("tokens_session", "user__exact=nonsense"),
        ("tokens_session", "revoke_reason__exact=nonsense"),
        ("tokens_session", "created_at__gte=nonsense"),
        ("tokens_signingkey", "state__exact=nonsense"),
        ("tokens_signingkey", "alg=nonsense"),
        ("tokens_oauthclient", "auth_method__exact=nonsense"),
        ("tokens_oauthclient", "trusted__exact=nonsense"),
        ("tokens_consent", "client__id__exact=nonsense"),
    ],
)
def test_djangos_own_filters_do_no_less(browser: Client, signing_key: str, name: str, query: str) -> None:
    """They refuse such a value or find nothing by it; that of roles is there once somebody has one."""
    for user in User.objects.all():
        user.groups.add(Group.objects.create(name="editors"))
    answer = browser.get(f"{reverse(f'admin:{name}_changelist')}?{query}")
    assert answer.status_code == 302 or answer.context["cl"].result_count == 0


@pytest.mark.parametrize(
    ("name", "narrowing"),
    [
        ("accounts_user", ("q=a", "being_deleted=no", "is_staff__exact=1")),
        ("accounts_auditevent", ("outcome=failure",)),
        ("accounts_outgoingmail", ("q=a", "state=waiting")),
        ("tokens_session", ("q=a", "state=ended", "created_at__year=2026")),
        ("tokens_consent", ("q=a",)),
    ],
)
def test_show_all_leads_back_to_the_whole_list(browser: Client, name: str, narrowing: tuple[str, ...]) -> None:
    """It is there where the list is searched or filtered, and nowhere else: sorted or asked for anew it is whole."""
    address = reverse(f"admin:{name}_changelist")
    for query in ("", "q=", "o=1", "e=1"):
        page = browser.get(f"{address}?{query}").content.decode()
        assert "Show all" not in page, query
        assert "result" in page, query
    for query in narrowing:
        assert '(<a href="?">Show all</a>)' in browser.get(f"{address}?{query}").content.decode(), query
