"""Sessions and signing keys in the admin."""

import base64
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from accounts.models import User
from accounts.outputs import Account
from ironauth.infrastructure import clock
from ironauth.infrastructure.invalidation import sid_tag
from ironauth.infrastructure.models import Invalidation
from tokens import refresh_token, sessions
from tokens.key_rotation import create_first_keys, rotate
from tokens.key_wrapping import unseal
from tokens.keys import public_jwk
from tokens.models import Session, SigningKey
from tokens.sessions import ClientInfo, Grant

pytestmark = pytest.mark.django_db

SESSIONS = "admin:tokens_session_changelist"
KEYS = "admin:tokens_signingkey_changelist"


@pytest.fixture
def grant(new_account: Callable[[], Account]) -> Grant:
    """A session just opened."""
    return sessions.open_session(account=new_account(), client=ClientInfo("192.0.2.7", "Browser/1.0"))


@pytest.fixture
def browser(new_email: Callable[[], str]) -> Client:
    """A superuser's browser."""
    user = User.objects.create_hashed(email=new_email(), encoded="!", is_staff=True, is_superuser=True)
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def make_clerk(new_email: Callable[[], str]) -> Callable[..., Client]:
    """A maker of browsers of staff with these permissions."""

    def make(*codenames: str) -> Client:
        user = User.objects.create_hashed(email=new_email(), encoded="!", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        client = Client()
        client.force_login(user)
        return client

    return make


@pytest.fixture
def clerk(make_clerk: Callable[..., Client]) -> Client:
    """The browser of staff who may only look."""
    return make_clerk("view_session", "view_signingkey", "view_user")


def secrets_of(grant: Grant) -> list[str]:
    """Return every spelling of the session's secret that a page could show by mistake."""
    secret = bytes(Session.objects.get(pk=grant.session_id).secret)
    parsed = refresh_token.parse(grant.refresh_token)
    assert parsed is not None
    return [secret.hex(), repr(secret), base64.urlsafe_b64encode(secret).decode(), grant.refresh_token]


def test_session_list(browser: Client, grant: Grant) -> None:
    """The list shows sessions, is found by e-mail and address, filters by state, and shows no secret."""
    page = browser.get(reverse(SESSIONS)).content.decode()
    assert str(grant.session_id) in page
    for query, found in (
        (f"q={grant.account.user.email}", True), ("q=192.0.2.7", True), ("q=nobody@example.com", False),
        ("state=live", True), ("state=ended", False),
    ):  # fmt: skip
        assert (str(grant.session_id) in browser.get(f"{reverse(SESSIONS)}?{query}").content.decode()) is found, query
    assert not any(secret in page for secret in secrets_of(grant))


def test_session_page(browser: Client, grant: Grant) -> None:
    """A session's page is read-only and shows no secret."""
    page = browser.get(reverse("admin:tokens_session_change", args=[grant.session_id]))
    assert page.status_code == 200
    text = page.content.decode()
    assert "Browser/1.0" in text
    assert 'name="_save"' not in text
    assert not any(secret in text for secret in secrets_of(grant))
    assert browser.get(reverse("admin:tokens_session_add")).status_code == 403
    assert browser.get(reverse("admin:tokens_session_delete", args=[grant.session_id])).status_code == 403


def test_end_sessions(browser: Client, clerk: Client, grant: Grant) -> None:
    """Ending sessions revokes and publishes them; who may only look cannot."""
    data = {"action": "end_sessions", "_selected_action": [str(grant.session_id)]}
    clerk.post(reverse(SESSIONS), data)
    assert Session.objects.get().revoked_at is None
    browser.post(reverse(SESSIONS), data)
    session = Session.objects.get()
    assert (session.revoke_reason, session.revoked_at is not None) == ("ended_by_staff", True)
    assert Invalidation.objects.filter(tag=sid_tag(grant.session_id)).count() == 1
    page = browser.get(f"{reverse(SESSIONS)}?state=ended").content.decode()
    assert "Ended by staff" in page or "Ended By Staff" in page


def test_ending_sessions_leaves_a_trace_and_spares_superusers(
    browser: Client, grant: Grant, make_clerk: Callable[..., Client]
) -> None:
    """Each ended session is in the log; staff who are no superusers leave superusers' sessions alone."""
    data = {"action": "end_sessions", "_selected_action": [str(grant.session_id)]}
    ender = make_clerk("view_session", "delete_session")
    User.objects.filter(pk=grant.account.id).update(is_superuser=True)
    assert "left as they were" in ender.post(reverse(SESSIONS), data, follow=True).content.decode()
    assert Session.objects.get().revoked_at is None
    User.objects.filter(pk=grant.account.id).update(is_superuser=False)
    assert "1 session ended." in ender.post(reverse(SESSIONS), data, follow=True).content.decode()
    (entry,) = LogEntry.objects.all()
    assert (entry.object_id, entry.change_message) == (str(grant.session_id), "Ended.")


@pytest.mark.parametrize(
    "lookup", ["secret__regex=^a", "secret__gte=0", "user__password__startswith=a", "generation=0"]
)
def test_columns_cannot_be_read_by_filtering(browser: Client, grant: Grant, lookup: str) -> None:
    """Filtering by a column the page does not offer is refused, so that nobody reads a secret bit by bit."""
    assert browser.get(f"{reverse(SESSIONS)}?{lookup}").status_code == 400
    key_lookup = lookup.replace("secret", "private_encrypted").replace("generation", "master_key_id")
    assert browser.get(f"{reverse(KEYS)}?{key_lookup}").status_code == 400


def test_states(browser: Client, grant: Grant) -> None:
    """The state column tells expired sessions, ended ones and inactive users apart from live ones."""

    def shown() -> str:
        return browser.get(reverse("admin:tokens_session_change", args=[grant.session_id])).content.decode()

    assert "Live" in shown()
    with clock.shifted(15 * 86_400):
        browser.force_login(User.objects.get(is_superuser=True))
        assert "Expired" in shown()
    browser.force_login(User.objects.get(is_superuser=True))
    User.objects.filter(pk=grant.account.id).update(session_epoch=9)
    assert "Ended with all others" in shown()


def test_sessions_on_the_user_page(browser: Client, grant: Grant) -> None:
    """A person's page lists the live sessions, and only those."""
    address = reverse("admin:accounts_user_change", args=[grant.account.id])
    assert "Browser/1.0" in browser.get(address).content.decode()
    sessions.end_session(session_id=grant.session_id, reason=Session.RevokeReason.SIGNED_OUT)
    assert "Browser/1.0" not in browser.get(address).content.decode()


def test_deleting_a_user_takes_the_sessions_along(browser: Client, grant: Grant) -> None:
    """A person with sessions can be deleted in the admin, sessions included."""
    address = reverse("admin:accounts_user_delete", args=[grant.account.id])
    assert browser.post(address, {"post": "yes"}).status_code == 302
    assert not Session.objects.exists()


def test_key_list(browser: Client, clerk: Client) -> None:
    """Keys are listed with their states; the private part is on no page; the button is there for those who may."""
    kid = create_first_keys()
    key = SigningKey.objects.get(pk=kid)
    seed = unseal(key.master_key_id, bytes(key.private_encrypted), kid)
    assert public_jwk(seed, "EdDSA").kid == kid
    for page in (reverse(KEYS), reverse("admin:tokens_signingkey_change", args=[kid])):
        text = browser.get(page).content.decode()
        assert kid in text
        for private in (seed.hex(), base64.urlsafe_b64encode(seed).decode().rstrip("="),
                        bytes(key.private_encrypted).hex(), "private_encrypted"):  # fmt: skip
            assert private not in text
    assert "signingkey/rotate/" in browser.get(reverse(KEYS)).content.decode()
    assert "signingkey/rotate/" not in clerk.get(reverse(KEYS)).content.decode()
    assert browser.get(reverse("admin:tokens_signingkey_add")).status_code == 403


def test_rotate_button(browser: Client, clerk: Client) -> None:
    """The button rotates when the next key is old enough, says why when not, and works by POST only."""
    kid = create_first_keys()
    address = reverse("admin:tokens_signingkey_rotate")
    assert clerk.post(address).status_code == 403
    assert browser.get(address).status_code == 302  # back from signing in again: nothing has changed
    assert SigningKey.objects.get(pk=kid).state == "active"
    refused = browser.post(address, follow=True)
    assert "try again in" in refused.content.decode()
    assert SigningKey.objects.get(state="active").kid == kid
    with clock.shifted(301):
        browser.post(address)
    assert [entry.change_message for entry in LogEntry.objects.all()] == ["Activated by rotation."]
    assert SigningKey.objects.get(pk=kid).state == "retiring"


def test_rotate_needs_the_csrf_token(browser: Client) -> None:
    """Another site cannot press the button."""
    create_first_keys()
    browser.handler.enforce_csrf_checks = True
    assert browser.post(reverse("admin:tokens_signingkey_rotate")).status_code == 403


def test_drop_as_compromised(browser: Client, clerk: Client) -> None:
    """Dropping asks once more, then the key is out; who may only look cannot."""
    kid = create_first_keys()
    rotate(at_once=True)
    data: dict[str, Any] = {"action": "drop_as_compromised", "_selected_action": [kid]}
    clerk.post(reverse(KEYS), data | {"confirmed": "yes"})
    asked = browser.post(reverse(KEYS), data)
    assert "cannot be undone" in asked.content.decode()
    assert SigningKey.objects.get(pk=kid).state == "retiring"
    browser.post(reverse(KEYS), data | {"confirmed": "yes"})
    assert SigningKey.objects.get(pk=kid).state == "dropped"
    again = browser.post(reverse(KEYS), data | {"confirmed": "yes"}, follow=True)
    assert "have been dropped before" in again.content.decode()
    assert [entry.change_message for entry in LogEntry.objects.all()] == ["Dropped as compromised."]
