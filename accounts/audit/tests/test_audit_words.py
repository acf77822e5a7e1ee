"""The trail in words: every event has its own, in one family, wherever staff read of it."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from accounts.audit import events as audit_events
from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.audit.recording import Event, Outcome
from accounts.users.models import User

LIST = "admin:accounts_auditevent_changelist"


def test_every_event_has_words_of_its_own() -> None:
    """In one family each, told apart, and none for what is not recorded."""
    codes = [code for family in audit_events.FAMILIES.values() for code in family]
    assert sorted(codes) == sorted(event.value for event in Event)
    words = {audit_events.phrase(code) for code in codes}
    assert len(words) == len(codes)
    assert not any("_" in phrase for phrase in words)


def test_sentences() -> None:
    """How it ended is said unless well; what a newer release recorded is said by its code."""
    assert audit_events.sentence("sign_in", "success") == "Sign-in"
    assert audit_events.sentence("sign_in", "failure") == "Sign-in, failed"
    assert audit_events.sentence("sign_in", "refused") == "Sign-in, refused"
    assert audit_events.sentence("brand_new", "odd") == "Brand new, odd"
    assert {audit_events.sentence("sign_out", outcome) for outcome in Outcome} >= {"Sign-out", "Sign-out, failed"}


@pytest.mark.parametrize(
    ("details", "words"),
    [
        ({"fields": ["is_active"], "is_active": False}, "User changed: deactivated"),
        ({"fields": ["is_active", "name"], "is_active": True}, "User changed: activated, name"),
        ({"fields": ["is_staff", "is_superuser"], "is_staff": True, "is_superuser": False},
         "User changed: made staff, superuser no more"),
        ({"fields": ["groups"], "roles_given": ["x"]}, "User changed: roles"),
        ({"fields": [], "roles_taken": ["x"]}, "User changed: roles"),
        ({"fields": ["email_verified_at"], "email_verified": False}, "User changed: address not verified"),
        ({"fields": ["is_active"]}, "User changed: is active"),
        ({"fields": "odd"}, "User changed"),
        ({}, "User changed"),
    ],
)  # fmt: skip
def test_a_change_of_an_account_says_what_was_changed(details: dict[str, Any], words: str) -> None:
    """What others rely on with its value, the rest by the field; other events have their words alone."""
    assert audit_events.told("user_changed", details) == words
    assert audit_events.sentence("user_changed", "success", details) == words
    assert audit_events.told("sign_in", details) == "Sign-in"


@pytest.mark.django_db
def test_one_wording_in_the_list_on_the_page_and_with_the_person(client: Client, root: User) -> None:
    """Why something failed and what was changed read alike in all three places; nothing is shown as JSON."""
    refused = {"reason": "wrong_password", "tries": ["a", "b"], "known": False, "at": "<x_y>"}
    audit.record(Event.SIGN_IN, outcome=Outcome.FAILURE, user_id=root.pk, details=refused)
    changed = {"fields": ["is_active"], "is_active": False}
    audit.record(Event.USER_CHANGED, user_id=root.pk, details=changed)
    addresses = [reverse("admin:accounts_auditevent_change", args=[event.pk]) for event in AuditEvent.objects.all()]
    whole = "".join(client.get(address).content.decode() for address in addresses)
    listed = client.get(reverse(LIST)).content.decode()
    person = client.get(reverse("admin:accounts_user_change", args=[root.pk])).content.decode()
    for page in (whole, listed, person):
        assert "failure: wrong password" in page
        assert "User changed: deactivated" in page
    for fact in ("reason: wrong password", "tries: a, b", "known: no", "at: &lt;x_y&gt;", "is active: no"):
        assert fact in whole, fact
    assert "&quot;reason&quot;" not in whole


@pytest.mark.django_db
def test_the_admin_uses_them(client: Client, root: User) -> None:
    """The list, the filter, the event's heading and breadcrumb, a person's page; the code is a field of the event."""
    audit.record(Event.REFRESH_REUSE, outcome=Outcome.REFUSED, user_id=root.pk)
    words, event = "Old refresh token used again", AuditEvent.objects.latest("id")
    page = client.get(reverse("admin:accounts_auditevent_change", args=[event.pk])).content.decode()
    assert f"<h2>{words}, refused</h2>" in page
    assert re.search(rf'<li aria-current="page">{words}, refused</li>', page)
    assert page.count("refresh_reuse") == 1
    assert "Name in the API" in page
    listed = client.get(reverse(LIST)).content.decode()
    assert listed.count(words) == 2  # the row and the filter
    assert words in client.get(reverse("admin:accounts_user_change", args=[root.pk])).content.decode()


@pytest.mark.django_db
def test_the_filter_is_folded_by_family(client: Client, root: User) -> None:
    """All families are closed but that of the chosen event."""
    page = client.get(reverse(LIST)).content.decode()
    assert page.count('<details class="family">') == len(audit_events.FAMILIES)
    assert re.search(r'<li class="selected">\s*<a href="\?">All</a>', page)
    page = client.get(f"{reverse(LIST)}?event=email_changed").content.decode()
    assert page.count('<details class="family">') == len(audit_events.FAMILIES) - 1
    assert re.search(r'<details class="family" open>\s*<summary>E-mail</summary>', page)
    assert '<li class="selected"><a href="?event=email_changed">E-mail address changed</a></li>' in page
