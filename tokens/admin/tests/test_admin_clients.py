"""Clients in the admin: made with a secret shown once, every field judged as typed, disabled at once."""

import html
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.audit.recording import Event
from accounts.users.models import User
from accounts.users.outputs import Account
from ironauth.infrastructure.admin.made_once import id_of, signed_id
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.models import Invalidation
from tokens.clients import registry as clients
from tokens.clients.models import OAuthClient, OAuthClientSecret, client_tag, digest_of
from tokens.oauth.consent.tests.test_consent_views import let_in
from tokens.oauth.models import AuthorizationCode, Consent
from tokens.oauth.tests.material import ED25519_JWK, REDIRECT_URI, make_client, make_public_client
from tokens.sessions.ends import batches, of_clients
from tokens.sessions.models import Session

pytestmark = pytest.mark.django_db

LIST = "admin:tokens_oauthclient_changelist"
ADD = "admin:tokens_oauthclient_add"
CONFIRMED = {"confirmed": "yes"}


@pytest.fixture
def browser(new_email: Callable[[], str]) -> Client:
    """A superuser's browser."""
    client = Client()
    client.force_login(User.objects.create_user(email=new_email(), is_staff=True, is_superuser=True))
    return client


@pytest.fixture
def clerk(new_email: Callable[[], str]) -> Client:
    """The browser of staff who may do everything with clients, and nothing else."""
    user = User.objects.create_user(email=new_email(), is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__endswith="_oauthclient"))
    client = Client()
    client.force_login(user)
    return client


def test_the_list_says_which_clients_strangers_made(browser: Client) -> None:
    """A client of staff's, one that registered itself, and one of these that staff have looked at."""
    names = {"Own": "staff", "Stranger": "registered", "Looked at": "registered"}
    for name, origin in names.items():
        client, _ = make_client(name=name)
        verified_at = clock.now() if name == "Looked at" else None
        OAuthClient.objects.filter(pk=client.pk).update(origin=origin, verified_at=verified_at)
    page_text = browser.get(reverse(LIST)).content.decode()
    cells = re.findall(r'class="field-came_from[^"]*">([^<]+)<', page_text)
    assert len(cells) == 3
    assert sum(one.endswith(", unverified") for one in cells) == 1
    assert sum(", verified " in one for one in cells) == 1


def form(**changes: Any) -> dict[str, Any]:
    """Return what the page of a client sends."""
    fields = {
        "name": "Wiki", "redirect_uris": REDIRECT_URI, "grants": ["authorization_code", "refresh_token"],
        "scopes": ["openid", "offline_access"], "profile": "oauth2.1", "auth_method": "secret", "require_pkce": "on",
        "dpop": "optional",
        "id_token_alg": "ed25519", "access_token_alg": "ed25519", "authorization_signed_response_alg": "ed25519",
        "subject_type": "public", "new_id": signed_id(new_id()), **changes,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}


def page(client: OAuthClient, act: str = "change") -> str:
    """Return the address of a client's page, or of one of its buttons."""
    return reverse(f"admin:tokens_oauthclient_{act}", args=[client.pk])


def text_of(answer: Any) -> str:
    """Return what a page says."""
    return html.unescape(answer.content.decode())


def secret_in(answer: Any) -> str:
    """Return the secret a page shows."""
    found = re.search(r"<dt>client_secret</dt><dd><code[^>]*>([A-Za-z0-9_-]{43})</code>", answer.content.decode())
    assert found is not None
    return found[1]


def events() -> list[str]:
    """Return what has been recorded of clients, in order."""
    return list(AuditEvent.objects.filter(event__startswith="client_").order_by("id").values_list("event", flat=True))


def test_making_one_shows_its_secret_once(browser: Client) -> None:
    """On a page no cache keeps; loaded again it makes no second client, and nothing shows the secret any more."""
    empty = browser.get(reverse(ADD)).content.decode()
    ticked = re.findall(r'name="(?:grants|scopes)" value="([^"]+)"[^>]* checked', empty)
    assert ticked == ["authorization_code", "refresh_token", "openid", "profile", "email", "offline_access"]
    sent = form(scopes=["openid", "email"], other_scopes="reports:read\r\n\r\n reports:write ")
    answer = browser.post(reverse(ADD), sent)
    assert (answer.status_code, "no-store" in answer.headers["Cache-Control"]) == (200, True)
    secret = secret_in(answer)
    client = OAuthClient.objects.get()
    assert client.pk == id_of(sent["new_id"])
    assert client.scopes == ["openid", "email", "reports:read", "reports:write"]
    assert OAuthClientSecret.objects.get().digest == digest_of(secret)
    again = browser.post(reverse(ADD), sent, follow=True)
    assert again.redirect_chain == [(page(client), 302)]
    assert "made already" in text_of(again)
    for address in (page(client), reverse(LIST), page(client, "history")):
        assert secret not in text_of(browser.get(address))
    assert OAuthClient.objects.count() == OAuthClientSecret.objects.count() == 1
    event = AuditEvent.objects.get(event="client_created")
    assert str(event.actor_id) == browser.session["_auth_user_id"]
    trust = {"administers": False, "resource_server": False, "trusted": False}
    assert event.details == {"client": str(client.pk), "name": "Wiki", "auth_method": "secret", **trust}
    assert secret not in str(list(LogEntry.objects.values())) + str(dict(browser.session))


def test_nobody_chooses_the_id(browser: Client) -> None:
    """With a person's, its own tokens would have that person's ``sub``: RFC 9700 §4.15. It gets another one."""
    person = User.objects.get()
    for chosen in (str(person.pk), f"{person.pk}:{signed_id(new_id()).partition(':')[2]}", "", "x"):
        browser.post(reverse(ADD), form(new_id=chosen))
    made = set(OAuthClient.objects.values_list("pk", flat=True))
    assert len(made) == 4
    assert person.pk not in made


def test_a_public_one_has_none(browser: Client) -> None:
    """Its page follows at once."""
    answer = browser.post(reverse(ADD), form(auth_method="none", redirect_uris="com.example.app:/cb"))
    client = OAuthClient.objects.get()
    assert (answer.status_code, answer.headers["Location"]) == (302, page(client))
    assert not OAuthClientSecret.objects.exists()


def test_every_bad_field_is_marked(browser: Client) -> None:
    """Each with its remedy, and with what was typed; nothing is stored."""
    answer = browser.post(
        reverse(ADD),
        form(
            name="", redirect_uris="http://app.example.com/cb\nhttps://app.example.com/#x", grants=[], scopes=[],
            auth_method="private_key_jwt", jwks="{", backchannel_logout_uri="ftp://x", access_token_s="0", sector="x",
        ),
    )  # fmt: skip
    assert answer.status_code == 200
    errors = answer.context["adminform"].form.errors
    assert set(errors) == {
        "name", "redirect_uris", "grants", "jwks", "backchannel_logout_uri", "access_token_s", "sector",
    }  # fmt: skip
    said = text_of(answer)
    for remedy in ("write https://", "leave out #", "at least one grant", "This is not valid JSON", "1 to 600 seconds"):
        assert remedy in said
    assert "http://app.example.com/cb\nhttps://app.example.com/#x" in said
    assert not OAuthClient.objects.exists()
    answer = browser.post(reverse(ADD), form(auth_method="none", require_pkce=None))
    assert set(answer.context["adminform"].form.errors) == {"require_pkce"}


def test_changing_one(browser: Client) -> None:
    """The form shows what is stored; unchanged it leaves no event, a change names its fields and is published."""
    client, _ = make_client(scopes=["openid", "offline_access", "reports:read"])
    said = text_of(browser.get(f"{page(client)}?tab=use"))
    assert REDIRECT_URI in said
    assert "reports:read</textarea>" in said
    same = form(other_scopes="reports:read")
    assert browser.post(page(client), same).status_code == 302
    assert events() == []
    moved = form(
        other_scopes="reports:read", redirect_uris=f"{REDIRECT_URI}\r\nhttps://b.example/cb", scopes=["openid"]
    )
    assert browser.post(page(client), moved).status_code == 302
    client.refresh_from_db()
    assert client.redirect_uris == [REDIRECT_URI, "https://b.example/cb"]
    assert client.scopes == ["openid", "reports:read"]
    event = AuditEvent.objects.get(event="client_changed")
    assert event.details == {"client": str(client.pk), "name": client.name, "fields": ["redirect_uris", "scopes"]}
    assert Invalidation.objects.filter(tag=client_tag(str(client.pk))).exists()


def test_another_way_to_prove_who_it_is(browser: Client) -> None:
    """Who signs from now on loses the secrets; who gets a secret by a change sees it once."""
    client, _ = make_client()
    signs = form(auth_method="private_key_jwt", jwks=json.dumps({"keys": [ED25519_JWK]}))
    assert browser.post(page(client), signs).status_code == 302
    assert not OAuthClientSecret.objects.exists()
    answer = browser.post(page(client), form())
    assert "no-store" in answer.headers["Cache-Control"]
    assert OAuthClientSecret.objects.get().digest == digest_of(secret_in(answer))


def test_rotating_a_secret(browser: Client) -> None:
    """The new one is shown once; the page loaded again, or from another tab, does not do it a second time."""
    client, first = make_client()
    newest = re.search(r'name="newest" value="([^"]+)"', browser.get(page(client)).content.decode())
    assert newest is not None
    sent = {"newest": newest[1], "expire_old_in_s": "86400"}
    assert browser.get(page(client, "rotate_secret")).status_code == 302
    answer = browser.post(page(client, "rotate_secret"), sent)
    assert "no-store" in answer.headers["Cache-Control"]
    secret = secret_in(answer)
    assert {one.digest for one in OAuthClientSecret.objects.all()} == {digest_of(first), digest_of(secret)}
    again = browser.post(page(client, "rotate_secret"), sent, follow=True)
    assert "Nothing was done" in text_of(again)
    assert secret not in text_of(again)
    assert f"…{secret[-4:]}, since" in text_of(again)
    assert "works until" in text_of(again)
    assert events() == ["client_secret_rotated"]
    assert LogEntry.objects.get().change_message == "Secret rotated."
    assert "Nothing was done" in text_of(browser.post(page(client, "rotate_secret"), {"newest": "x"}, follow=True))


@pytest.mark.storage
def test_disabling_ends_everything(browser: Client, new_account: Callable[[], Account]) -> None:
    """It asks first; then tokens are refused in every worker, sessions and codes are over, consents stay."""
    client, _ = make_client()
    session = let_in(new_account().id, client)
    other, _ = make_client(name="Shop")
    spared = let_in(new_account().id, other)
    asked = browser.post(page(client, "disable"))
    assert "Disable Wiki?" in text_of(asked)
    assert clients.read_client(client.pk) is not None
    done = browser.post(page(client, "disable"), CONFIRMED, follow=True)
    assert "Wiki is disabled; 1 session ended." in text_of(done)
    assert clients.read_client(client.pk) is None
    session.refresh_from_db()
    spared.refresh_from_db()
    assert (session.revoke_reason, spared.revoked_at) == ("ended_by_staff", None)
    assert list(AuthorizationCode.objects.values_list("client", flat=True)) == [other.pk]
    assert Consent.objects.filter(client=client).exists()
    assert Invalidation.objects.filter(tag=client_tag(str(client.pk))).count() == 1
    browser.post(page(client, "disable"), CONFIRMED)
    assert "Wiki is enabled." in text_of(browser.post(page(client, "enable"), follow=True))
    assert clients.read_client(client.pk) is not None
    assert events() == ["client_disabled", "client_enabled"]
    assert [entry.change_message for entry in LogEntry.objects.order_by("pk")] == ["Disabled.", "Enabled."]


@pytest.mark.storage
def test_many_sessions_go_on_ending(
    browser: Client, new_account: Callable[[], Account], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says how many have ended, and does not enable the client before all have."""
    monkeypatch.setattr(of_clients, "AT_ONCE", 1)
    client, _ = make_client()
    for _ in range(2):
        let_in(new_account().id, client)
    done = text_of(browser.post(page(client, "disable"), CONFIRMED, follow=True))
    assert "Wiki is disabled; 1 session ended. The others are ending" in done
    assert "its sessions are ending, 1 so far" in done
    assert "still being ended" in text_of(browser.post(page(client, "enable"), follow=True))
    assert clients.read_client(client.pk) is None
    batches.end_all()
    assert "so far" not in text_of(browser.get(page(client, "change")))
    assert "Wiki is enabled." in text_of(browser.post(page(client, "enable"), follow=True))


def test_deleting_one(browser: Client, new_account: Callable[[], Account]) -> None:
    """After a question its sessions end, and its consents go with it."""
    client, _ = make_client()
    let_in(new_account().id, client)
    assert "Are you sure" in text_of(browser.get(page(client, "delete")))
    assert browser.post(page(client, "delete"), {"post": "yes"}).status_code == 302
    assert not OAuthClient.objects.exists()
    assert not Consent.objects.exists()
    assert Session.objects.get().revoked_at is not None
    assert events() == ["client_deleted"]
    assert Invalidation.objects.filter(tag=client_tag(str(client.pk))).exists()


def test_what_acts_for_everybody_is_a_superusers(clerk: Client, browser: Client) -> None:
    """Staff with every right over clients make ordinary ones; what acts for everybody or administers they only see."""
    answer = clerk.post(reverse(ADD), form(trusted="on"))
    assert set(answer.context["adminform"].form.errors) == {"trusted"}
    answer = clerk.post(reverse(ADD), form(scopes=["openid", "account"]))
    assert set(answer.context["adminform"].form.errors) == {"scopes"}
    answer = clerk.post(reverse(ADD), form(administers="on"))
    assert set(answer.context["adminform"].form.errors) == {"administers"}
    assert secret_in(clerk.post(reverse(ADD), form()))
    for fields in ({"trusted": True}, {"scopes": ["account"]}, {"administers": True}):
        client, _ = make_client(**fields)
        said = text_of(clerk.get(page(client)))
        assert 'name="_save"' not in said
        assert clerk.post(page(client), form()).status_code == 403
        for act in ("rotate_secret", "enable"):
            assert clerk.post(page(client, act)).status_code == 403
        assert clerk.post(page(client, "disable"), CONFIRMED).status_code == 302
        assert clients.read_client(client.pk) is None
    assert browser.post(reverse(ADD), form(trusted="on", scopes=["account"], administers="on")).status_code == 200
    assert OAuthClient.objects.filter(administers=True, trusted=True).exists()


def test_the_trail_names_a_machine(browser: Client) -> None:
    """What a client did by itself is shown with its name, in the list and on the event's page; no link to a person."""
    robot, _ = make_client(name="Robot", administers=True)
    audit.record(Event.KEY_ROTATED, actor_id=robot.pk)
    event = AuditEvent.objects.get(event="key_rotated")
    for address in (
        reverse("admin:accounts_auditevent_changelist"),
        reverse("admin:accounts_auditevent_change", args=[event.pk]),
    ):
        said = text_of(browser.get(address))
        assert "Robot (application)" in said
        assert reverse("admin:accounts_user_change", args=[robot.pk]) not in said


def test_who_may_only_look(new_email: Callable[[], str]) -> None:
    """They see the page, no button and no form; nothing they send does anything. Strangers see nothing."""
    user = User.objects.create_user(email=new_email(), is_staff=True)
    looker = Client()
    looker.force_login(user)
    client, _ = make_client()
    acts = [(reverse(ADD), form()), (page(client), form()), (page(client, "delete"), {"post": "yes"})]
    acts += [(page(client, act), CONFIRMED) for act in ("rotate_secret", "disable", "enable")]
    assert looker.get(page(client)).status_code == 403
    user.user_permissions.set(Permission.objects.filter(codename="view_oauthclient"))
    said = text_of(looker.get(page(client)))
    assert "Try it" in said
    for button in ('name="_save"', "Make a new secret", 'value="Disable"'):
        assert button not in said
    assert [looker.post(address, sent).status_code for address, sent in acts] == [403] * len(acts)
    assert {answer_of(address, sent).status_code for address, sent in acts} == {302}
    assert events() == []
    assert looker.get(page(client, "disable")).status_code == 403


def answer_of(address: str, sent: dict[str, Any]) -> Any:
    """Return what somebody who is not signed in gets."""
    answer: Any = Client().post(address, sent)
    assert "/admin/login/" in answer.headers["Location"]
    return answer


def test_the_list(browser: Client, new_account: Callable[[], Account]) -> None:
    """With counts of live sessions and consents, found by name and by client_id, filtered by state."""
    client, _ = make_client()
    let_in(new_account().id, client)
    let_in(new_account().id, client)
    Session.objects.filter(pk=let_in(new_account().id, client).pk).update(epoch=7)  # over
    shop = make_public_client(name="Shop")
    rows = text_of(browser.get(reverse(LIST)))
    assert re.search(r'field-sessions">2</td>.*?>3</a>', rows, re.DOTALL)
    assert "Public" in rows
    for query, found in (
        ("q=wik", True), (f"q={client.pk}", True), (f"q={shop.pk}", False), ("q=x%25", False), ("state=enabled", True),
        ("state=disabled", False), ("auth_method__exact=none", False),
    ):  # fmt: skip
        answer = browser.get(f"{reverse(LIST)}?{query}")
        assert (page(client) in text_of(answer)) is found, query
    assert browser.get(f"{reverse(LIST)}?secrets__digest__startswith=a").status_code in (302, 400)


def test_the_list_takes_as_many_queries_for_many(browser: Client, new_account: Callable[[], Account]) -> None:
    """No count is made row by row."""
    make_client()
    browser.get(reverse(LIST))
    queries = []
    for _ in range(2):
        with CaptureQueriesContext(
            connection,
        ) as few:
            browser.get(reverse(LIST))
        queries.append(len(few))
        for name in ("A", "B", "C", "D"):
            let_in(new_account().id, make_client(name=name)[0])
    assert queries[0] == queries[1]


def test_a_client_that_does_not_exist(browser: Client) -> None:
    """Its buttons are not there."""
    ghost = OAuthClient(name="Ghost")
    for act in ("rotate_secret", "disable", "enable"):
        assert browser.post(page(ghost, act), CONFIRMED).status_code == 404


@pytest.mark.parametrize(
    ("fields", "said", "unsaid"),
    [
        ({}, ["code_verifier=", "-u ", "oauth2-proxy", "Spring", "openid-client", "Authlib", "Start a sign-in"], []),
        ({"auth_method": "none"}, ["client.None()", "-d client_id="], ["oauth2-proxy", "Spring"]),
        ({}, ["client.buildAuthorizationUrl("], ["WithPAR"]),
        ({"require_par": True}, ["client.buildAuthorizationUrlWithPAR("], ["Start a sign-in", "Authlib", "Spring"]),
        (
            {"grants": ["client_credentials"], "scopes": ["reports:read"], "redirect_uris": []},
            ["grant_type=client_credentials --data-urlencode scope=reports:read"],
            ["Start a sign-in", "openid-client"],
        ),
        (
            {"grants": ["urn:ietf:params:oauth:grant-type:device_code"], "redirect_uris": []},
            ["/oauth/device_authorization"],
            ["Start a sign-in"],
        ),
        (
            {"auth_method": "private_key_jwt", "dpop": "required"},
            ["client_assertion", "DPoP: $DPOP_PROOF", "PrivateKeyJwt"],
            ["-u ", "Authlib"],
        ),
        (
            {"auth_method": "none", "dpop": "required"},
            ["DPoP: $DPOP_PROOF", "openid-client"],
            ["Authlib"],
        ),
        (
            {"grants": ["urn:ietf:params:oauth:grant-type:token-exchange"], "redirect_uris": []},
            ['grant-type:token-exchange \\\n  -d subject_token="$TOKEN" -d subject_token_type=urn:ietf:params:oauth:'],
            ["Start a sign-in"],
        ),
        (
            {"redirect_uris": ["https://app.example.com/a'$(b)"]},
            ["""'redirect_uri=https://app.example.com/a'"'"'$(b)'"""],
            [],
        ),
    ],
)
def test_how_to_use_it(browser: Client, fields: dict[str, Any], said: list[str], unsaid: list[str]) -> None:
    """The page has addresses and configurations for what the client is, fit to be pasted, and no secret."""
    client, secret = make_client(**fields)
    shown = text_of(browser.get(page(client)))
    assert "/.well-known/openid-configuration" in shown
    for part in said:
        assert part in shown
    for part in (*unsaid, *filter(None, [secret])):
        assert part not in shown


def test_the_link_begins_a_flow(browser: Client) -> None:
    """With this client's own id, address and scopes, and a challenge for the verifier in the curl line."""
    client, _ = make_client()
    shown = text_of(browser.get(page(client)))
    link = re.search(r'href="(http[^"]+/oauth/authorize\?[^"]+)"', shown)
    assert link is not None
    for part in ("response_type=code", f"client_id={client.pk}", "code_challenge_method=S256", "scope=openid+profile"):
        assert part in link[1]
    assert re.search(r"code_verifier=[A-Za-z0-9_-]{43}\b", shown)
