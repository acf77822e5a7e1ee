"""Consents in the admin: to see and to take back."""

from collections.abc import Callable

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounts.audit.models import AuditEvent
from accounts.users.outputs import Account
from tokens.oauth.consent.tests.test_consent_views import let_in
from tokens.oauth.models import Consent
from tokens.oauth.tests.material import make_client

pytestmark = pytest.mark.django_db

LIST = "admin:tokens_consent_changelist"
CONFIRMED = {"confirmed": "yes"}


def test_list_and_page(make_clerk: Callable[..., Client], new_account: Callable[[], Account]) -> None:
    """Who has allowed which application what, found by address and by application; nothing to edit."""
    account, (client, _) = new_account(), make_client()
    let_in(account.id, client, "email openid")
    other, _ = make_client(name="Shop")
    let_in(new_account().id, other)
    looker = make_clerk("view_consent")
    consent = Consent.objects.get(user_id=account.id)
    for query, found in (
        ("", True), (f"q={account.user.email[:9].upper()}", True), ("q=nobody", False),
        (f"client__id__exact={client.pk}", True), (f"client__id__exact={other.pk}", False),
    ):  # fmt: skip
        shown = looker.get(f"{reverse(LIST)}?{query}").content.decode()
        assert (reverse("admin:tokens_consent_change", args=[consent.pk]) in shown) is found, query
    shown = looker.get(reverse("admin:tokens_consent_change", args=[consent.pk])).content.decode()
    assert "email openid" in shown
    assert 'name="_save"' not in shown
    assert "revoke_consents" not in shown
    assert looker.get(reverse("admin:tokens_consent_delete", args=[consent.pk])).status_code == 403
    assert looker.get(f"{reverse(LIST)}?client__secrets__digest__startswith=a").status_code in (302, 400)


def test_taking_back(make_clerk: Callable[..., Client], new_account: Callable[[], Account]) -> None:
    """It asks first; then the application's sessions are over, in the audit trail and in the admin's log."""
    account, (client, _) = new_account(), make_client()
    session = let_in(account.id, client)
    consent = Consent.objects.get()
    sent = {"action": "revoke_consents", "_selected_action": [str(consent.pk)]}
    make_clerk("view_consent").post(reverse(LIST), sent | CONFIRMED)
    assert Consent.objects.exists()
    clerk = make_clerk("view_consent", "delete_consent")
    asked = clerk.post(reverse(LIST), sent).content.decode()
    assert "Take back 1 consent?" in asked
    assert account.user.email in asked
    done = clerk.post(reverse(LIST), sent | CONFIRMED, follow=True).content.decode()
    assert "1 consent taken back." in done
    assert not Consent.objects.exists()
    session.refresh_from_db()
    assert session.revoke_reason == "ended_by_staff"
    event = AuditEvent.objects.get(event="consent_revoked")
    assert (str(event.actor_id), event.user_id) == (clerk.session["_auth_user_id"], account.id)
    assert LogEntry.objects.get().change_message == "Taken back."


def test_the_list_takes_as_many_queries_for_many(
    make_clerk: Callable[..., Client], new_account: Callable[[], Account]
) -> None:
    """People and applications come with the page."""
    looker, queries = make_clerk("view_consent"), []
    client, _ = make_client()
    let_in(new_account().id, client)
    for _ in range(2):
        with CaptureQueriesContext(connection) as few:
            looker.get(reverse(LIST))
        queries.append(len(few))
        for _ in range(3):
            let_in(new_account().id, client)
    assert queries[0] == queries[1]
