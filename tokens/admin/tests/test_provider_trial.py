"""*Try it*: a whole sign-in at a provider by staff, which says what came or what is wrong, and changes nothing else."""

import html
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.federation.kinds.github import GitHub
from accounts.federation.kinds.kind import Endpoints
from accounts.federation.models import Identity, UpstreamProvider, UpstreamSignIn
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from tokens.sessions.models import Session
from tokens.upstream import exchange
from tokens.upstream.administration import sign_in_trial
from tokens.upstream.tests.provider import CLIENT_ID, KEY, STRANGERS_KEY, FakeProvider, as_hmac_key, served
from tokens.upstream.tests.walk import UPSTREAM, is_in, sent, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("signing_key")]

BACK = "/admin/accounts/upstreamprovider/tried/acme/"


@pytest.fixture
def provider(transactional_db: None, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    """A provider on this machine, known here as *acme*."""
    monkeypatch.setattr(exchange, "LIMIT_S", 60.0)
    settings.DEBUG = True  # http on this machine
    settings.IRONAUTH_UPSTREAM_NETWORKS = ["127.0.0.0/8"]
    with served(FakeProvider) as there:
        stored("acme", there.issuer)
        yield there


def row() -> UpstreamProvider:
    return UpstreamProvider.objects.get(slug="acme")


def browser(email: str = "root@example.com", *, superuser: bool = True) -> Client:
    """Return the browser of somebody of staff who has just signed in."""
    user = User.objects.create_user(email=email, is_staff=True, is_superuser=superuser)
    client = Client()
    client.force_login(user)
    return client


def begin(client: Client, provider: FakeProvider) -> dict[str, str]:
    """Press the button; return what the provider is asked, which it takes note of."""
    answer = client.post(reverse("admin:accounts_upstreamprovider_try", args=[row().pk]))
    assert answer.status_code == 200
    text = answer.content.decode()
    found = re.search(r'<a class="button" href="([^"]+)"', text)
    assert found is not None, text
    asked = {name: values[0] for name, values in parse_qs(urlsplit(html.unescape(found[1])).query).items()}
    provider.nonce, provider.challenge = asked.get("nonce", ""), asked["code_challenge"]
    return asked


def back(client: Client, provider: FakeProvider, asked: dict[str, str], **changes: str | None) -> str:
    """Come back from the provider by its redirect URI, and return the text of the page."""
    brought = {"code": "c0de", "state": asked["state"], "iss": provider.issuer, **changes}
    answer = client.get(BACK, {name: value for name, value in brought.items() if value})
    return html.unescape(answer.content.decode())


def counted() -> dict[str, Any]:
    """Return what a trial must not touch."""
    users = list(User.objects.order_by("pk").values("pk", "email", "name", "session_epoch", "last_login", "updated_at"))
    rows = {one.__name__: list(one.objects.order_by("pk").values()) for one in (Identity, Session, UpstreamSignIn)}
    return {"users": users, **rows}


def events() -> list[tuple[str, dict[str, Any]]]:
    """Return the events of trials, the oldest first."""
    found = AuditEvent.objects.filter(event="provider_tried").order_by("id")
    return [(one.outcome, one.details) for one in found]


def test_what_came_is_shown(provider: FakeProvider) -> None:
    """Issuer, subject, address, name, amr and acr as the operator maps them, and what a sign-in would have done."""
    UpstreamProvider.objects.update(second_factors=["otp"])
    provider.claims = {"amr": ["pwd", "otp"], "acr": "high"}
    root = browser()
    page = root.get(reverse("admin:accounts_upstreamprovider_change", args=[row().pk])).content.decode()
    assert 'value="Try a sign-in"' in page
    before = counted()
    asked = begin(root, provider)
    assert "prompt" not in asked
    assert asked["redirect_uri"].endswith("/oauth/upstream/acme")
    assert "/authorize?" in provider.asked[-1]
    text = back(root, provider, asked)
    for part in (
        "Acme works.", provider.issuer, "subject-1", "ann@example.com, verified there", ">Ann<",
        "high, otp, pwd: a second factor here", "make a new account and sign in to it",
    ):  # fmt: skip
        assert part in text, part
    assert counted() == before
    assert events() == [("success", {"provider": "acme"})]


def test_by_the_redirect_uri_that_is_registered(provider: FakeProvider) -> None:
    """It is the one of a sign-in, which sends a trial on to the admin, with all that the provider said."""
    root = browser()
    asked = begin(root, provider)
    query = {"code": "c0de", "state": asked["state"], "iss": provider.issuer}
    answer = root.get("/oauth/upstream/acme", query)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith(f"{BACK}?code=c0de")
    assert "Acme works." in html.unescape(root.get(answer.headers["location"]).content.decode())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "make a new account"),
        ({"terms": True}, "asked to accept the terms"),
        ({"closed": True}, "asked to sign in to an account here once"),
        ({"holder": {}}, "asked to sign in to an account here once"),
        ({"holder": {"email_verified_at": True}, "domain": True}, "be linked to this account"),
        ({"holder": {"email_verified_at": True, "must_change_password": True}, "domain": True}, "be refused"),
        ({"holder": {}, "untrusted": True}, "asked to make an account, or to sign in to one"),
        ({"known": {}}, "sign in to this account"),
        ({"known": {"is_active": False}}, "be refused: this account cannot sign in"),
        ({"known": {"must_change_password": True}}, "be refused: this account cannot sign in"),
        ({"known": {}, "off": True}, "this provider is switched off"),
    ],
)
def test_what_a_sign_in_would_do(provider: FakeProvider, settings: Settings, given: dict[str, Any], words: str) -> None:
    """As the rules of linking say, for each of their outcomes; nothing of it is done."""
    settings.IRONAUTH_SIGN_UP = "closed" if given.get("closed") else "open"
    if given.get("terms"):
        settings.IRONAUTH_TERMS_VERSION, settings.IRONAUTH_TERMS_URL = "2026-11", "https://example.com/terms"
    for kind in ("holder", "known"):
        if kind in given:
            fields = {**given[kind], **({"email_verified_at": clock.now()} if given[kind] else {})}
            user = User.objects.create_user("ann@example.com", PASSWORD, **fields)
            if kind == "known":
                Identity.objects.create(user=user, provider=row(), issuer=provider.issuer, subject="subject-1")
    domains = ["example.com"] if given.get("domain") else []
    UpstreamProvider.objects.update(
        domains=domains, trusts_email=not given.get("untrusted"), enabled=not given.get("off")
    )
    root = browser()
    before = counted()
    text = back(root, provider, begin(root, provider))
    assert words in text
    is_known = not given.get("untrusted") and ("known" in given or "holder" in given)
    assert ("<dt>Account</dt><dd>ann@example.com" in text) is is_known
    assert counted() == before


@pytest.mark.parametrize(
    ("change", "cause", "words"),
    [
        ({"token_answer": {"error": "invalid_client"}}, "code invalid_client", "client secret is wrong"),
        ({"token_answer": {"error": "invalid_grant"}}, "code invalid_grant", "does not exchange its code"),
        ({"token_answer": {"error": "redirect_uri_mismatch"}}, "code redirect_uri", "Register exactly http"),
        ({"token_answer": {}}, "text", "no ID token that can be read"),
        ({"alg": "HS256", "signer": as_hmac_key(KEY)}, "alg", "Choose RS256"),
        ({"signer": STRANGERS_KEY}, "key", "not signed by any of the keys"),
        ({"claims": {"aud": "another"}}, "aud", "Copy the client ID again"),
        ({"claims": {"iss": "https://other.example"}}, "iss", "names another issuer"),
        ({"claims": {"nonce": "another"}}, "nonce", "does not answer this trial"),
        ({"claims": {"iat": 1}}, "iat", "set by NTP"),
        ({"claims": {"exp": 1}}, "exp", "set by NTP"),
        ({"claims": {"sub": ""}}, "subject", "does not say who it is"),
    ],
)
def test_what_is_wrong_of_the_answer(provider: FakeProvider, change: dict[str, Any], cause: str, words: str) -> None:
    """Each in a sentence with its remedy, and in the trail; no account is looked up or made."""
    for name, value in change.items():
        setattr(provider, name, value)
    root = browser()
    before = counted()
    text = back(root, provider, begin(root, provider))
    assert words in text
    assert "Acme works" not in text
    ((outcome, details),) = events()
    assert (outcome, details["cause"]) == ("failure", cause)
    assert counted() == before


@pytest.mark.parametrize(
    ("brought", "words"),
    [
        ({"error": "access_denied"}, "somebody cancelled there"),
        ({"error": "redirect_uri_mismatch"}, "is not registered at the provider"),
        ({"error": "invalid_scope"}, "Allow these scopes"),
        ({"error": "<b>odd</b>", "error_description": "x" * 5000}, "It said “<b>odd</b>: xxx"),
        ({"iss": "https://other.example"}, "names another issuer"),
        ({"code": None}, "neither a code nor an error"),
    ],
)
def test_what_the_browser_brings(provider: FakeProvider, brought: dict[str, str | None], words: str) -> None:
    """An error of the authorization endpoint is told with the provider's own words, as text and cut."""
    root = browser()
    asked = begin(root, provider)
    query = {"code": "c0de", "state": asked["state"], "iss": provider.issuer, **brought}
    raw = root.get(BACK, {name: value for name, value in query.items() if value}).content.decode()
    assert words in html.unescape(raw)
    assert "<b>odd" not in raw
    assert len(raw) < 40_000
    assert "/token" not in provider.asked


def test_a_provider_that_refuses_the_request(provider: FakeProvider) -> None:
    """Its error page is found before anybody goes there, and what it speaks of; one may go all the same."""
    root = browser()
    page = reverse("admin:accounts_upstreamprovider_try", args=[row().pk])
    provider.page = (400, b"<h1>Invalid parameter: redirect_uri</h1>")
    text = html.unescape(root.post(page).content.decode())
    assert "is not registered at the provider" in text
    assert "Register exactly" in text
    assert 'http-equiv="refresh"' not in text
    assert "Continue to Acme" in text
    provider.page = (401, b"<h1>Client not found</h1>")
    assert "may not know the client ID" in html.unescape(root.post(page).content.decode())
    provider.page = (302, b"")
    assert 'http-equiv="refresh"' in root.post(page).content.decode()
    assert any("prompt=none" in one for one in provider.asked)


def test_a_provider_that_does_not_answer(provider: FakeProvider, settings: Settings) -> None:
    """Before anybody goes there: another's document, nobody there, no public address, a secret that does not open."""
    root = browser()
    page = reverse("admin:accounts_upstreamprovider_try", args=[row().pk])
    provider.document = {"issuer": "https://other.example"}
    assert "discovery document is missing" in root.post(page).content.decode()
    settings.IRONAUTH_UPSTREAM_NETWORKS = []
    assert "IRONAUTH_UPSTREAM_NETWORKS" in root.post(page).content.decode()
    UpstreamProvider.objects.update(sealed_secret=b"x" * 40)
    assert "cannot be opened" in root.post(page).content.decode()
    assert [details["cause"] for _, details in events()] == ["discovery", "NotPublicError", "secret"]


def test_github(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ID tokens: the account is asked for by its API; a wrong secret is told in GitHub's words."""
    here = provider.issuer
    where = Endpoints("https://github.com", f"{here}/authorize", f"{here}/token", auth_methods=("client_secret_post",))
    monkeypatch.setattr(GitHub, "endpoints", where)
    monkeypatch.setattr(GitHub, "user_uri", f"{here}/userinfo")
    monkeypatch.setattr(GitHub, "emails_uri", f"{here}/userinfo")
    UpstreamProvider.objects.update(kind="github", issuer="https://github.com")
    provider.token_answer, provider.userinfo = {"access_token": "at"}, {"id": 7, "name": "Octo"}
    root = browser()
    text = back(root, provider, begin(root, provider), iss=None)
    assert "<dd>7</dd>" in text
    assert "Octo" in text
    provider.token_answer = {"error": "incorrect_client_credentials"}
    assert "client secret is wrong" in back(root, provider, begin(root, provider), iss=None)
    assert [outcome for outcome, _ in events()] == ["success", "failure"]


# ---------------------------------------------------------------- hostile
async def test_its_state_signs_nobody_in(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """Brought by somebody else's browser, it leads to the admin's sign-in; nothing is asked of the provider."""
    asked = await sync_to_async(begin)(await sync_to_async(browser)(), provider)
    page = await api.get("/account/signin")
    assert page.status_code == 200
    query = {"code": "c0de", "state": asked["state"], "iss": provider.issuer}
    answer = await api.get(f"{UPSTREAM}/acme", params=query)
    assert not is_in(answer)
    assert answer.headers["location"].startswith(BACK)
    assert not answer.cookies
    there = await api.get(answer.headers["location"])
    assert there.status_code == 302
    assert there.headers["location"].startswith("/admin/login/")
    assert "/token" not in provider.asked
    assert await Session.objects.acount() == 0


async def test_the_state_of_a_sign_in_is_no_trial(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """Brought to the page where a trial ends: refused, and still good where it belongs."""
    root = await sync_to_async(browser)()
    await sync_to_async(begin)(root, provider)
    asked = await sent(api, provider)
    text = await sync_to_async(back)(root, provider, asked)
    assert "belongs to no trial of this session" in text
    assert "/token" not in provider.asked
    answer = await api.get(f"{UPSTREAM}/acme", params={"code": "c", "state": asked["state"], "iss": provider.issuer})
    assert is_in(answer)


def test_another_session(provider: FakeProvider) -> None:
    """Of other staff, and of the same superuser elsewhere: refused, and not used up."""
    root = browser()
    asked = begin(root, provider)
    other, elsewhere = browser("other@example.com"), Client()
    elsewhere.force_login(User.objects.get(email="root@example.com"))
    for client in (other, elsewhere):
        assert "belongs to no trial of this session" in back(client, provider, asked)
        begin(client, provider)
        assert "belongs to no trial of this session" in back(client, provider, asked)
    assert "/token" not in provider.asked
    provider.nonce, provider.challenge = asked["nonce"], asked["code_challenge"]
    assert "Acme works." in back(root, provider, asked)


def test_a_replay(provider: FakeProvider) -> None:
    """Used once: the second time nothing is asked of the provider, also by a copy of the session of before."""
    root = browser()
    asked = begin(root, provider)
    kept = dict(root.session.items())
    assert "Acme works." in back(root, provider, asked)
    provider.asked.clear()
    assert "belongs to no trial of this session" in back(root, provider, asked)
    session = root.session
    session["ironauth_provider_trial"] = kept["ironauth_provider_trial"]
    session.save()
    assert "belongs to no trial of this session" in back(root, provider, asked)
    assert provider.asked == []
    assert len(events()) == 1


@pytest.mark.parametrize(("after_s", "in_time"), [(sign_in_trial.LIFE_S - 5, True), (sign_in_trial.LIFE_S, False)])
def test_an_old_one(provider: FakeProvider, after_s: int, in_time: bool) -> None:
    """Ten minutes, and no longer."""
    root = browser()
    asked = begin(root, provider)
    with clock.shifted(after_s):
        provider.claims = {"iat": int(clock.unix()), "exp": int(clock.unix()) + 60}
        assert ("Acme works." in back(root, provider, asked)) is in_time


def test_another_providers_redirect_uri(provider: FakeProvider) -> None:
    """A state of acme's does not end at another provider's page (mix-up)."""
    stored("other", f"{provider.issuer}/other")
    root = browser()
    asked = begin(root, provider)
    page = BACK.replace("acme", "other")
    answer = root.get(page, {"code": "c", "state": asked["state"], "iss": provider.issuer})
    assert answer.status_code == 400
    assert "/token" not in provider.asked


def test_who_may_try(provider: FakeProvider) -> None:
    """Superusers alone, with a proof of the last ten minutes to begin; by GET nothing begins; no other provider."""
    page = reverse("admin:accounts_upstreamprovider_try", args=[row().pk])
    staff = browser("staff@example.com", superuser=False)
    for answer in (staff.get(page), staff.post(page), staff.get(BACK)):
        assert answer.status_code == 403
    assert Client().get(BACK).status_code == 302
    root = browser()
    with clock.shifted(601):
        answer = root.post(page)
        assert answer.headers["location"].startswith("/admin/confirm/")
    assert "ironauth_provider_trial" not in root.session
    provider.asked.clear()
    assert root.get(page).status_code == 200
    assert provider.asked == []
    assert root.get(page.replace(str(row().pk), str(User.objects.first().pk))).status_code == 404  # type: ignore[union-attr]
    assert CLIENT_ID in html.unescape(root.get(page).content.decode())
