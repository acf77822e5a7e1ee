"""Sessions and signing keys in the admin."""

import base64
import html
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from structlog.testing import capture_logs

from accounts.privacy import units as deletions
from accounts.users.models import User
from accounts.users.outputs import Account
from ironauth.infrastructure.admin.read_only import breakable
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http.client_context import ClientContext
from ironauth.infrastructure.models import Invalidation
from tokens.keys.key_set import Family, public_jwk
from tokens.keys.models import SigningKey
from tokens.keys.units import create_first_keys, rotate
from tokens.keys.wrapping import unseal
from tokens.oauth.consent.tests.test_consent_views import let_in
from tokens.oauth.models import Consent
from tokens.oauth.tests.material import make_client
from tokens.sessions import refresh_token
from tokens.sessions import units as sessions
from tokens.sessions.models import Session, sid_tag
from tokens.sessions.queries import OpenedSession

pytestmark = pytest.mark.django_db

SESSIONS = "admin:tokens_session_changelist"
KEYS = "admin:tokens_signingkey_changelist"


@pytest.fixture
def opened_session(new_account: Callable[[], Account]) -> OpenedSession:
    """A session just opened."""
    return sessions.store_first_party(account=new_account(), context=ClientContext("192.0.2.7", "Browser/1.0"))


@pytest.fixture
def browser(new_email: Callable[[], str]) -> Client:
    """A superuser's browser."""
    user = User.objects.create_user(email=new_email(), is_staff=True, is_superuser=True)
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def clerk(make_clerk: Callable[..., Client]) -> Client:
    """The browser of staff who may only look."""
    return make_clerk("view_session", "view_signingkey", "view_user")


def key_page(kid: str) -> str:
    """Return the address of a key's page; admin quotes the underscores a kid may have."""
    return reverse("admin:tokens_signingkey_change", args=[quote(kid)])


def secrets_of(opened_session: OpenedSession) -> list[str]:
    """Return every spelling of the session's secret that a page could show by mistake."""
    secret = bytes(Session.objects.get(pk=opened_session.session_id).secret)
    parsed = refresh_token.parse(opened_session.refresh_token)
    assert parsed is not None
    return [secret.hex(), repr(secret), base64.urlsafe_b64encode(secret).decode(), opened_session.refresh_token]


def test_session_list(browser: Client, opened_session: OpenedSession) -> None:
    """The list shows sessions, is found by e-mail and address, filters by state, and shows no secret."""
    page = browser.get(reverse(SESSIONS)).content.decode()
    assert str(opened_session.session_id) in page
    for query, found in (
        (f"q={opened_session.account.user.email}", True), ("q=192.0.2.7", True), ("q=nobody@example.com", False),
        ("state=live", True), ("state=ended", False),
    ):  # fmt: skip
        assert (
            str(opened_session.session_id) in browser.get(f"{reverse(SESSIONS)}?{query}").content.decode()
        ) is found, query
    assert not any(secret in page for secret in secrets_of(opened_session))


def test_a_session_names_its_browser(browser: Client, opened_session: OpenedSession) -> None:
    """The list and the person's page say it in two words, with the whole user agent as their title, markup escaped."""
    agent = 'Mozilla/5.0 (X11; Linux x86_64) HeadlessChrome/138.0.0.0 "<b>"'
    Session.objects.update(user_agent=agent)
    for page in (reverse(SESSIONS), reverse("admin:accounts_user_change", args=[opened_session.account.id])):
        assert f'<span title="{html.escape(agent)}">Chrome, Linux</span>' in browser.get(page).content.decode()
    Session.objects.update(user_agent="")
    assert '<td class="field-agent">-</td>' in browser.get(reverse(SESSIONS)).content.decode()


def test_session_page(browser: Client, opened_session: OpenedSession) -> None:
    """A session's page is read-only and shows no secret."""
    page = browser.get(reverse("admin:tokens_session_change", args=[opened_session.session_id]))
    assert page.status_code == 200
    text = page.content.decode()
    assert "Browser/1.0" in text
    assert 'name="_save"' not in text
    assert not any(secret in text for secret in secrets_of(opened_session))
    assert browser.get(reverse("admin:tokens_session_add")).status_code == 403
    assert browser.get(reverse("admin:tokens_session_delete", args=[opened_session.session_id])).status_code == 403


def ending(*grants: OpenedSession) -> dict[str, Any]:
    """Return the form that ends these sessions, not confirmed yet."""
    return {"action": "end_sessions", "_selected_action": [str(opened_session.session_id) for opened_session in grants]}


CONFIRMED = {"confirmed": "yes"}


def test_end_sessions(browser: Client, clerk: Client, opened_session: OpenedSession) -> None:
    """Ending sessions asks once more, then revokes and publishes them; who may only look cannot."""
    clerk.post(reverse(SESSIONS), ending(opened_session) | CONFIRMED)
    asked = browser.post(reverse(SESSIONS), ending(opened_session)).content.decode()
    for part in ("End 1 session?", opened_session.account.user.email, "192.0.2.7, Browser/1.0", "act-confirmation"):
        assert part in asked
    assert Session.objects.get().revoked_at is None
    browser.post(reverse(SESSIONS), ending(opened_session) | CONFIRMED)
    session = Session.objects.get()
    assert (session.revoke_reason, session.revoked_at is not None) == ("ended_by_staff", True)
    assert Invalidation.objects.filter(tag=sid_tag(opened_session.session_id)).count() == 1
    page = browser.get(f"{reverse(SESSIONS)}?state=ended").content.decode()
    assert "Ended by staff" in page
    assert "Signed Out" not in page  # the filter's labels are sentences too


def test_ending_sessions_leaves_a_trace(browser: Client, opened_session: OpenedSession) -> None:
    """Each ended session has an entry in the admin's log and a line in ours; one already over has neither."""
    with capture_logs() as logged:
        first = browser.post(reverse(SESSIONS), ending(opened_session) | CONFIRMED, follow=True)
        again = browser.post(reverse(SESSIONS), ending(opened_session), follow=True)
    assert "1 session ended." in first.content.decode()
    assert 'class="warning">No live session was selected.' in again.content.decode()
    (entry,) = LogEntry.objects.all()
    assert (entry.object_id, entry.change_message) == (str(opened_session.session_id), "Ended.")
    (line,) = [line for line in logged if line["event"] == "admin_action"]
    assert (line["action"], line["target"], line["by"]) == (
        "end_session", str(opened_session.session_id), browser.session["_auth_user_id"],
    )  # fmt: skip


def test_staff_leave_superusers_sessions_alone(
    browser: Client,
    opened_session: OpenedSession,
    make_clerk: Callable[..., Client],
    new_account: Callable[[], Account],
) -> None:
    """Staff who are no superusers end the sessions of others only, and are told so before and after."""
    User.objects.filter(pk=opened_session.account.id).update(is_superuser=True)
    other = sessions.store_first_party(account=new_account(), context=ClientContext())
    ender = make_clerk("view_session", "delete_session")
    spared = "Left as they were: 1 session of superusers."
    asked = ender.post(reverse(SESSIONS), ending(opened_session, other)).content.decode()
    assert spared in asked
    assert opened_session.account.user.email not in asked
    done = ender.post(reverse(SESSIONS), ending(opened_session, other) | CONFIRMED, follow=True).content.decode()
    assert spared in done
    assert "1 session ended." in done
    assert spared in ender.post(reverse(SESSIONS), ending(opened_session), follow=True).content.decode()
    assert Session.objects.get(revoked_at=None).pk == opened_session.session_id
    browser.post(reverse(SESSIONS), ending(opened_session) | CONFIRMED)
    assert not Session.objects.filter(revoked_at=None).exists()


@pytest.mark.parametrize(
    ("page", "action"),
    [
        ("admin:accounts_user_changelist", "deactivate"),
        ("admin:accounts_user_changelist", "delete_selected"),
        ("admin:accounts_role_changelist", "delete_selected"),
        (SESSIONS, "end_sessions"),
        ("admin:tokens_signingkey_changelist", "drop_as_compromised"),
    ],
)
def test_a_malformed_selection_is_the_senders_fault(browser: Client, page: str, action: str) -> None:
    """A key that can be none is 400 on every list."""
    for key in ("\x00", "9" * 400, "x"):
        if key == "x" and "signingkey" in page:
            continue  # a key id is text: this one merely does not exist
        answer = browser.post(reverse(page), {"action": action, "_selected_action": key})
        assert answer.status_code == 400, key


@pytest.mark.live
def test_all_sessions_of_a_long_list_end_at_once(browser: Client, opened_session: OpenedSession) -> None:
    """More sessions than a form may have fields are asked about with one field, and all end."""
    template = Session.objects.get()
    Session.objects.bulk_create(
        Session(
            user_id=template.user_id, master_key_id="t1", epoch=template.epoch,
            idle_expires_at=template.idle_expires_at, absolute_expires_at=template.absolute_expires_at,
        )
        for _ in range(1_100)
    )  # fmt: skip
    everything = ending(opened_session) | {"select_across": "1", "index": "0"}
    asked = browser.post(reverse(SESSIONS), everything).content.decode()
    assert "End 1101 sessions?" in asked
    assert asked.count('name="_selected_action"') == 1
    assert "1051 more" in asked
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="(\w+)"', asked[asked.index('id="content"') :]))
    done = browser.post(reverse(SESSIONS), fields, follow=True).content.decode()
    assert "1101 sessions ended." in done
    assert not Session.objects.filter(revoked_at=None).exists()
    assert LogEntry.objects.count() == 1_101


@pytest.mark.parametrize(
    "lookup",
    ["secret__regex=^a", "secret__gte=0", "user__password__startswith=a", "generation=0", "created_at__regex=["],
)
def test_columns_cannot_be_read_by_filtering(browser: Client, opened_session: OpenedSession, lookup: str) -> None:
    """Filtering by a column the page does not offer is refused, so that nobody reads a secret bit by bit."""
    assert browser.get(f"{reverse(SESSIONS)}?{lookup}").status_code == 400
    key_lookup = lookup.replace("secret", "private_encrypted").replace("generation", "master_key_id")
    assert browser.get(f"{reverse(KEYS)}?{key_lookup}").status_code == 400


@pytest.mark.parametrize(
    "lookup",
    ["created_at__gte=xyz", "created_at__year=9999", "created_at__year=0", "created_at__month=99&created_at__year=2026",
     "revoke_reason__exact=nonsense", "state=nonsense", "p=999", "o=99", "q=%00"],
)  # fmt: skip
def test_senseless_filters_are_no_errors(browser: Client, opened_session: OpenedSession, lookup: str) -> None:
    """A filter that cannot be meant shows a list, at worst after Django's redirect to the whole one."""
    assert browser.get(f"{reverse(SESSIONS)}?{lookup}", follow=True).status_code == 200


def test_secret_columns_stay_in_the_database(browser: Client, opened_session: OpenedSession) -> None:
    """No list, filtered list, question or page as much as reads the columns with secrets."""
    kid = create_first_keys()
    person = reverse("admin:accounts_user_change", args=[opened_session.account.id])
    session = reverse("admin:tokens_session_change", args=[opened_session.session_id])
    lists = [
        reverse(SESSIONS),
        reverse(SESSIONS) + "?state=live",
        reverse(KEYS),
        reverse(KEYS) + "?state__exact=active",
    ]
    with CaptureQueriesContext(connection) as captured:
        answers = [browser.get(address) for address in (*lists, person, session, key_page(kid))]
        answers.append(browser.post(reverse(SESSIONS), ending(opened_session)))
        answers.append(browser.post(reverse(KEYS), {"action": "drop_as_compromised", "_selected_action": [kid]}))
    assert {answer.status_code for answer in answers} == {200}
    read = [query["sql"] for query in captured.captured_queries]
    assert not [sql for sql in read if re.search(r'"(secret|private_encrypted)"', sql)]
    assert len([sql for sql in read if 'FROM "tokens_' in sql]) > len(answers)


def test_every_offered_filter_works(browser: Client, opened_session: OpenedSession) -> None:
    """Each link beside and above the lists is one that the allow-list admits."""
    create_first_keys()
    for page in (reverse(SESSIONS), reverse(KEYS)):
        links = {html.unescape(link) for link in re.findall(r'href="(\?[^"]*)"', browser.get(page).content.decode())}
        assert len(links) > 5
        assert {browser.get(page + link).status_code for link in links} == {200}


def test_lists_fit_a_screen(browser: Client, opened_session: OpenedSession) -> None:
    """Sessions are led by their user, keys by their state and the beginning of the kid, with all that matters."""
    kid = create_first_keys()

    def headings(page: str) -> list[str]:
        return re.findall(r'class="[^"]*column-(\w+)', browser.get(reverse(page)).content.decode())

    assert headings(SESSIONS) == ["user", "state", "last_used", "expires", "address", "application", "agent"]
    assert headings(KEYS)[:2] == ["state", "short_kid"]
    assert {"activated", "retired", "ends"} < set(headings(KEYS))
    assert f">{kid[:12]}…</a>" in browser.get(reverse(KEYS)).content.decode()
    assert kid in browser.get(key_page(kid)).content.decode()


def test_states(browser: Client, opened_session: OpenedSession) -> None:
    """The state column tells expired sessions, ended ones and inactive users apart from live ones."""

    def shown() -> str:
        return browser.get(reverse("admin:tokens_session_change", args=[opened_session.session_id])).content.decode()

    assert "Live" in shown()
    with clock.shifted(15 * 86_400):
        browser.force_login(User.objects.get(is_superuser=True))
        assert "Expired" in shown()
    browser.force_login(User.objects.get(is_superuser=True))
    User.objects.filter(pk=opened_session.account.id).update(session_epoch=9)
    assert "Ended with all others" in shown()


def test_sessions_on_the_user_page(browser: Client, opened_session: OpenedSession) -> None:
    """A person's page lists the live sessions, and only those."""
    address = reverse("admin:accounts_user_change", args=[opened_session.account.id])
    assert "Browser/1.0" in browser.get(address).content.decode()
    sessions.end_session(session_id=opened_session.session_id, reason=Session.RevokeReason.SIGNED_OUT)
    assert "Browser/1.0" not in browser.get(address).content.decode()


def test_a_persons_page_does_not_grow_with_their_sessions(browser: Client, opened_session: OpenedSession) -> None:
    """It shows the twenty used last, at the same cost however many there are; a link leads to all of theirs."""
    user_id, first = opened_session.account.id, Session.objects.get(pk=opened_session.session_id)
    address = reverse("admin:accounts_user_change", args=[user_id])

    def add(number: int) -> None:
        newer = [
            Session(
                user_id=user_id,
                master_key_id=first.master_key_id,
                epoch=first.epoch,
                last_used_at=first.last_used_at + timedelta(seconds=n),
                idle_expires_at=first.idle_expires_at,
                absolute_expires_at=first.absolute_expires_at,
            )
            for n in range(1, number + 1)
        ]
        Session.objects.bulk_create(newer)

    def shown() -> tuple[str, int]:
        with CaptureQueriesContext(connection) as captured:
            page = browser.get(address).content.decode()
        return page, len(captured)

    add(19)
    shown()  # Django remembers content types
    page, queries = shown()
    assert "Browser/1.0" in page  # the one used first of twenty
    assert "The 20 used last." not in page
    add(1)
    assert "The 20 used last." in shown()[0]
    add(479)
    grown, as_many = shown()
    assert "Browser/1.0" not in grown
    assert as_many == queries
    assert len(grown) == pytest.approx(len(page), abs=500)
    assert len(re.findall(r'id="sessions-\d+"', grown)) == 20
    Session.objects.exclude(pk=first.pk).delete()
    (link,) = re.findall(r'href="([^"]+)">All sessions of this person<', grown)
    sessions.store_first_party(account=opened_session.account, context=ClientContext("192.0.2.8", "Other/1.0"))
    stranger = User.objects.create_user(email="zoe@example.com")
    Session.objects.filter(ip="192.0.2.8").update(user=stranger)
    listed = browser.get(html.unescape(link)).context["cl"]
    assert [one.pk for one in listed.result_list] == [first.pk]
    for nobody in ("x", "%00"):
        assert browser.get(f"{reverse(SESSIONS)}?user__exact={nobody}").headers["location"].endswith("?e=1")


def test_a_person_is_saved_though_other_sessions_are_live_by_now(
    browser: Client, opened_session: OpenedSession
) -> None:
    """What the page showed of sessions is not taken for a change of them, and no row is written."""
    address = reverse("admin:accounts_user_change", args=[opened_session.account.id])
    page = browser.get(address)
    fields: dict[str, Any] = dict(browser.get(f"{address}?tab=profile").context["adminform"].form.initial)
    kept = {name: fields[name] for name in ("email", "name")} | {"is_active": "on"}
    sent = dict(re.findall(r'name="((?:sessions|pending)[^"]*)" value="([^"]*)"', page.content.decode()))
    assert any(value == str(opened_session.session_id) for value in sent.values())
    sessions.end_session(session_id=opened_session.session_id, reason=Session.RevokeReason.SIGNED_OUT)
    assert browser.post(address, kept | sent | {"name": "Mia"}).status_code == 302
    assert User.objects.get(pk=opened_session.account.id).name == "Mia"
    assert Session.objects.count() == 1


def test_deleting_a_user_takes_the_sessions_along(browser: Client, opened_session: OpenedSession) -> None:
    """A person with sessions can be deleted in the admin, sessions included."""
    address = reverse("admin:accounts_user_delete", args=[opened_session.account.id])
    assert browser.post(address, {"post": "yes"}).status_code == 302
    assert not Session.objects.exists()


def test_key_list(browser: Client, clerk: Client) -> None:
    """Keys are listed with their states; the private part is on no page; the button is there for those who may."""
    kid = create_first_keys()
    key = SigningKey.objects.get(pk=kid)
    seed = unseal(key.master_key_id, bytes(key.private_encrypted), kid)
    assert public_jwk(seed, "EdDSA").kid == kid
    for page in (reverse(KEYS), key_page(kid)):
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
    asked = browser.post(address).content.decode()
    assert "Rotate the signing keys?" in asked
    assert SigningKey.objects.get(state="active").kid == kid
    refused = browser.post(address, CONFIRMED, follow=True)
    assert "try again in" in refused.content.decode()
    assert "--now" not in refused.content.decode()
    assert SigningKey.objects.get(state="active").kid == kid
    with clock.shifted(306), capture_logs() as logged:
        browser.post(address, CONFIRMED)
    assert [entry.change_message for entry in LogEntry.objects.all()] == ["Activated by rotation."]
    assert [line["action"] for line in logged if line["event"] == "admin_action"] == ["rotate_key"]
    assert SigningKey.objects.get(pk=kid).state == "retiring"


def test_other_families(browser: Client, clerk: Client) -> None:
    """Keys of another family have a button of their own, which leaves Ed25519 alone."""
    kid = create_first_keys()
    address = reverse("admin:tokens_signingkey_rotate_family", args=["ES256"])
    assert address not in browser.get(reverse(KEYS)).content.decode()
    other = create_first_keys(Family.ES256)
    assert address in browser.get(reverse(KEYS)).content.decode()
    assert address not in clerk.get(reverse(KEYS)).content.decode()
    assert clerk.post(address, CONFIRMED).status_code == 403
    assert "Rotate the ES256 signing keys?" in browser.post(address).content.decode()
    with clock.shifted(306):
        browser.post(address, CONFIRMED)
    assert SigningKey.objects.get(pk=other).state == "retiring"
    assert SigningKey.objects.get(pk=kid).state == "active"
    unknown = reverse("admin:tokens_signingkey_rotate_family", args=["HS256"])
    assert browser.post(unknown, CONFIRMED).status_code == 404
    assert browser.get(reverse("admin:tokens_signingkey_change", args=[other])).status_code == 200


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
    dropped = SigningKey.objects.create(kid="gone", alg="EdDSA", public_jwk={}, state="dropped")
    asked = browser.post(reverse(KEYS), data | {"_selected_action": [kid, dropped.kid]}).content.decode()
    for part in ("cannot be undone", "act-confirmation", 'class="breadcrumbs"', "Drop 1 signing key?", kid):
        assert part in asked
    assert "gone (" not in asked
    assert SigningKey.objects.get(pk=kid).state == "retiring"
    with capture_logs() as logged:
        browser.post(reverse(KEYS), data | {"confirmed": "yes"})
    assert SigningKey.objects.get(pk=kid).state == "dropped"
    for confirmed in ({}, {"confirmed": "yes"}):
        again = browser.post(reverse(KEYS), data | confirmed, follow=True)
        assert "No key in use was selected." in again.content.decode()
    assert [entry.change_message for entry in LogEntry.objects.all()] == ["Dropped as compromised."]
    assert [line["action"] for line in logged if line["event"] == "admin_action"] == ["drop_key"]


def test_what_a_deleted_account_has_says_so(browser: Client, opened_session: OpenedSession) -> None:
    """Its sessions and consents name it by what it is, not by the stand-in that it has for an address meanwhile."""
    client, _ = make_client()
    let_in(opened_session.account.id, client, "openid")
    consent, user = Consent.objects.get(), User.objects.get(pk=opened_session.account.id)
    assert breakable(user.email) in browser.get(reverse("admin:tokens_consent_changelist")).content.decode()
    with transaction.atomic():
        deletions.request(user_id=user.pk, old=user.password, session_id=None)
    since = f"Deleted account, since {clock.now():%Y-%m-%d}"
    for path, told in (
        (reverse(SESSIONS), since),
        (reverse("admin:tokens_session_change", args=[opened_session.session_id]), "Deleted account"),
        (reverse("admin:tokens_consent_changelist"), since),
        (reverse("admin:tokens_consent_change", args=[consent.pk]), "Deleted account"),
    ):  # fmt: skip
        page = browser.get(path).content.decode().replace("<wbr>", "")
        assert told in page, path
        assert "deleted.invalid" not in page, path
