"""Signing in with another provider: who gets in, what is linked to which account, and what becomes of a lie."""

import time
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.federation import units
from accounts.federation.errors import UpstreamRefused
from accounts.federation.kinds.kind import UpstreamPerson
from accounts.federation.kinds.registry import KINDS
from accounts.federation.models import Identity, UpstreamProvider, UpstreamSignIn
from accounts.outbox.models import OutgoingMail
from accounts.users.models import User
from conftest import PASSWORD
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, by_password, is_page, send
from tokens.sessions.models import Session
from tokens.tests.browser import Member
from tokens.tests.second_factor import enrol
from tokens.upstream import discovery, exchange, providers
from tokens.upstream.tests.provider import (
    CLIENT_ID,
    OTHER_KEY,
    STRANGERS_KEY,
    FakeProvider,
    as_hmac_key,
)
from tokens.upstream.tests.walk import UPSTREAM, back, is_in, noted, sent, stored, through

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

SIGNIN, SIGNUP = "/oauth/signin", "/oauth/signup"


@pytest.fixture
async def client(transactional_db: None) -> OAuthClient:
    """One of our own clients, which asks for no consent."""
    return (await sync_to_async(make_client)(trusted=True))[0]


async def world() -> tuple[int, int, int, list[Any]]:
    """Return what a failed sign-in must not change."""
    rows = [row async for row in User.objects.order_by("pk").values_list("email", "password", "session_epoch")]
    return await User.objects.acount(), await Identity.objects.acount(), await Session.objects.acount(), rows


# ---------------------------------------------------------------- the way in
async def failures() -> list[tuple[str, Any, dict[str, Any]]]:
    """Return the failures in the trail."""
    await sync_to_async(audit.wait_until_written)()
    found = AuditEvent.objects.filter(outcome="failure").order_by("pk")
    return [one async for one in found.values_list("event", "user_id", "details")]


async def test_the_first_sign_in_makes_an_account(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """With the verified address and name of the provider, without a password; the second finds the same account."""
    asked = await sent(api, provider)
    assert asked["code_challenge_method"] == "S256"
    assert asked["redirect_uri"].endswith("/oauth/upstream/acme")
    assert is_in(await back(api, provider, asked))
    user = await User.objects.aget(email="ann@example.com")
    assert (user.name, user.has_usable_password(), user.email_verified_at is None) == ("Ann", False, False)
    provider.claims = {"email": "renamed@example.com"}
    assert is_in(await through(api, provider))
    identity = await Identity.objects.aget()
    assert (identity.user_id, identity.subject, identity.email) == (user.pk, "subject-1", "renamed@example.com")
    assert await User.objects.acount() == 1
    session = await Session.objects.alatest("created_at")
    assert session.amr == "fed"


async def test_a_client_gets_its_answer(api: httpx.AsyncClient, provider: FakeProvider, client: OAuthClient) -> None:
    """On the way to a client the authorization goes on after it."""
    assert answered(await through(api, provider, await authorize(api, client)))["code"]


@pytest.mark.parametrize("named", [{"provider": "acme"}, {"login_hint": "someone@Acme.example"}])
async def test_a_client_names_the_provider(
    api: httpx.AsyncClient, provider: FakeProvider, client: OAuthClient, named: dict[str, str]
) -> None:
    """By its short name, or by the domain of the address it expects; a person who is signed in goes on at once."""
    await UpstreamProvider.objects.aupdate(domains=["acme.example"])
    providers.outdated()
    asked = noted(provider, await authorize(api, client, **named))
    assert answered(await back(api, provider, asked))["code"]
    assert answered(await authorize(api, client, **named))["code"]


@pytest.mark.parametrize("named", [{"provider": "unknown"}, {"login_hint": "someone@elsewhere.example"}])
async def test_what_names_no_provider_is_the_page(
    api: httpx.AsyncClient, provider: FakeProvider, client: OAuthClient, named: dict[str, str]
) -> None:
    """An unknown name, or another domain, shows all ways in; so does a provider that does not answer."""
    assert is_page(await authorize(api, client, **named), 200, "Continue with Acme")
    await UpstreamProvider.objects.aupdate(issuer="http://127.0.0.1:9")
    providers.outdated()
    assert is_page(await authorize(api, client, provider="acme"), 503, "does not answer", "Continue with Acme")


async def test_a_page_of_this_site_names_the_provider(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """``/account/signin?provider=`` goes there at once."""
    asked = noted(provider, await api.get("/account/signin?provider=acme"))
    assert is_in(await back(api, provider, asked))


async def test_a_second_factor_is_still_asked(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """An account with a second factor is not opened by the provider alone."""
    await through(api, provider)
    pair = {"access_token": api.cookies["access_token"]}
    api.cookies.clear()
    app, _ = await enrol(api, pair)
    page = await through(api, provider)
    assert is_page(page, 200)
    assert not page.cookies.get("access_token")
    assert is_in(await send(api, page, "/oauth/signin/code", code=app.code(1)))
    assert set((await Session.objects.alatest("created_at")).amr.split()) == {"fed", "otp", "mfa"}


# ---------------------------------------------------------------- whose account it is
async def test_an_address_opens_no_account(api: httpx.AsyncClient, member: Member, provider: FakeProvider) -> None:
    """Who has the address signs in here first; then the identity is theirs, and they hear of it by mail."""
    provider.claims = {"email": member["email"]}
    before = await world()
    page = await through(api, provider)
    assert is_page(page, 200, "Sign in to your account here once", member["email"])
    assert await world() == before
    assert is_in(await by_password(api, page, member["email"]))
    assert (await Identity.objects.aget()).user_id == (await User.objects.aget(email=member["email"])).pk
    assert await OutgoingMail.objects.filter(kind="identity_linked").aexists()
    api.cookies.clear()
    assert is_in(await through(api, provider))


async def test_a_wrong_password_links_nothing(api: httpx.AsyncClient, member: Member, provider: FakeProvider) -> None:
    """The identity waits until somebody has signed in."""
    provider.claims = {"email": member["email"]}
    page = await through(api, provider)
    assert is_page(await by_password(api, page, member["email"], "not the password"), 401)
    assert not await Identity.objects.aexists()


async def test_a_waiting_identity_is_its_browsers(
    api: httpx.AsyncClient, member: Member, provider: FakeProvider
) -> None:
    """The page of one browser is worth nothing in another one."""
    provider.claims = {"email": member["email"]}
    page = await through(api, provider)
    api.cookies.clear()
    await api.get("/account/signin")
    assert not is_in(await by_password(api, page, member["email"]))
    assert not await Identity.objects.aexists()


@pytest.mark.parametrize("case", ["unverified", "untrusted", "none"])
async def test_an_address_that_is_not_verified_is_proved_first(
    api: httpx.AsyncClient, provider: FakeProvider, settings: Settings, case: str
) -> None:
    """Nobody gets an account with an address on the word of a provider that has not verified it (nOAuth)."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "off"
    if case == "untrusted":
        await UpstreamProvider.objects.aupdate(trusts_email=False)
    else:
        provider.claims = {"email_verified": False if case == "unverified" else "true"}
        if case == "none":
            provider.claims = {"email": None}
    page = await through(api, provider)
    assert is_page(page, 200, "Create an account", "Create your account here once", 'maxlength="150" value="Ann"')
    assert not await User.objects.aexists()
    assert is_in(await send(api, page, SIGNUP, email="new@example.com", name="", password=PASSWORD))
    assert (await Identity.objects.aget()).user_id == (await User.objects.aget(email="new@example.com")).pk


async def test_the_authority_of_a_domain_links(api: httpx.AsyncClient, member: Member, provider: FakeProvider) -> None:
    """A provider that runs the domain's mailboxes links to who has proved the address; not to who has not."""
    provider.claims = {"email": member["email"]}
    domain = member["email"].rpartition("@")[2]
    await UpstreamProvider.objects.aupdate(domains=[domain])
    await User.objects.aupdate(email_verified_at=None)
    assert is_page(await through(api, provider), 200, "Sign in to your account here once")
    await User.objects.aupdate(email_verified_at="2024-01-01T00:00:00Z")
    assert is_in(await through(api, provider))
    assert await Identity.objects.acount() == 1


async def test_an_identity_has_one_account(api: httpx.AsyncClient, member: Member, provider: FakeProvider) -> None:
    """Somebody else's identity opens their account, whatever address it says; nothing is moved."""
    await through(api, provider)
    provider.claims = {"email": member["email"]}
    assert is_in(await through(api, provider))
    assert (await User.objects.aget(pk=(await Identity.objects.aget()).user_id)).email == "ann@example.com"


async def test_a_deactivated_account_stays_closed(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """Its identity opens nothing."""
    await through(api, provider)
    await User.objects.aupdate(is_active=False)
    api.cookies.clear()
    assert is_page(await through(api, provider), 401, "cannot sign in")
    user_id = (await Identity.objects.aget()).user_id
    assert (await failures())[-1] == ("sign_in", user_id, {"reason": "deactivated", "provider": "acme"})


@pytest.mark.parametrize("setting", ["closed", "provider"])
async def test_sign_up_can_be_closed(
    api: httpx.AsyncClient, provider: FakeProvider, settings: Settings, setting: str
) -> None:
    """Where nobody may sign up, or the provider makes no accounts, an unknown identity asks for an account here."""
    if setting == "closed":
        settings.IRONAUTH_SIGN_UP = "closed"
    else:
        await UpstreamProvider.objects.aupdate(creates_accounts=False)
    assert is_page(await through(api, provider), 200, "Sign in to your account here once")
    assert not await User.objects.aexists()


async def test_the_other_first_sign_in_ends_between_two_looks(
    api: httpx.AsyncClient, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As PostgreSQL shows it: no identity yet, and then the account it has made. Its owner is not asked to sign in."""
    looked = units.told_by

    def meanwhile(row: UpstreamProvider, person: UpstreamPerson) -> Any:
        monkeypatch.setattr(units, "told_by", looked)
        units._create(row, person)
        return looked(row, person)

    monkeypatch.setattr(units, "told_by", meanwhile)
    assert is_in(await through(api, provider))
    assert (await User.objects.acount(), await Identity.objects.acount()) == (1, 1)


# ---------------------------------------------------------------- lies
HOUR_S, DAY_S = 3_600, 86_400

#: What the provider says instead; of a time, by how many seconds it differs from now.
LIES: dict[str, dict[str, Any]] = {
    "issuer": {"claims": {"iss": "https://evil.example"}},
    "no issuer": {"claims": {"iss": None}},
    "audience": {"claims": {"aud": "another client"}},
    "audience of several": {"claims": {"aud": [CLIENT_ID, "another client"]}},
    "authorized party": {"claims": {"azp": "another client"}},
    "nonce": {"claims": {"nonce": "another sign-in's"}},
    "no nonce": {"claims": {"nonce": None}},
    "expired": {"times": {"exp": -HOUR_S}},
    "no end": {"claims": {"exp": None}},
    "of tomorrow": {"times": {"iat": DAY_S}},
    "old": {"times": {"iat": -DAY_S}},
    "longer than any": {"claims": {"groups": "g" * 9_000}},
    "no subject": {"claims": {"sub": None}},
    "empty subject": {"claims": {"sub": ""}},
    "long subject": {"claims": {"sub": "s" * 256}},
    "number as subject": {"claims": {"sub": 1}},
    "a stranger's key": {"signer": STRANGERS_KEY},
    "unsigned": {"alg": "none"},
    "signed with the public key as secret": {"alg": "HS256"},
    "no ID token": {"token_answer": {"access_token": "at"}},
    "not a token": {"token_answer": {"id_token": "a.b.c"}},
    "an error": {"token_answer": {"error": "invalid_grant"}},
    "a list": {"token_answer": ["no object"]},
}

#: What the trail says did not hold: a claim, or a part of the token.
CAUSES: dict[str, str] = {
    "issuer": "iss",
    "no issuer": "iss",
    "audience": "aud",
    "audience of several": "aud",
    "authorized party": "azp",
    "nonce": "nonce",
    "no nonce": "nonce",
    "expired": "exp",
    "no end": "exp",
    "of tomorrow": "iat",
    "old": "iat",
    **dict.fromkeys(("no subject", "empty subject", "long subject", "number as subject"), "subject"),
    **dict.fromkeys(("longer than any", "unsigned", "no ID token"), "text"),
    "a stranger's key": "key",
    "signed with the public key as secret": "alg",
    "not a token": "header",
    **dict.fromkeys(("an error", "a list"), "code"),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_lie_changes_nothing(api: httpx.AsyncClient, member: Member, provider: FakeProvider, lie: str) -> None:
    """Whatever does not hold is refused on the page, and leaves no account, identity or session."""
    asked = await sent(api, provider)
    for name, value in LIES[lie].items():
        if name == "times":
            provider.claims = {claim: int(time.time()) + seconds for claim, seconds in value.items()}
        else:
            setattr(provider, name, value)
    if provider.alg == "HS256":
        provider.signer = as_hmac_key(provider.keys[0])
    before = await world()
    assert is_page(await back(api, provider, asked), 401, "did not confirm who you are")
    assert await world() == before
    (event, user_id, details), *more = await failures()
    assert (event, user_id, details["reason"], details["provider"]) == ("sign_in", None, "provider_refused", "acme")
    assert details["cause"] == CAUSES[lie]
    assert not more


@pytest.mark.parametrize("email", ["a" * 3_500 + "@example.com", "moc.elpmaxe@\u202enna", "<b>@example.com", "\x00@x"])
async def test_an_address_that_nobody_may_have(api: httpx.AsyncClient, provider: FakeProvider, email: str) -> None:
    """It makes no account and no page; the person signs up with another one."""
    provider.claims = {"email": email}
    page = await through(api, provider)
    assert is_page(page, 200, "Create an account")
    assert email not in page.text
    assert len(page.text) < 20_000


@pytest.mark.parametrize(
    ("issuer", "holds"),
    [
        ("https://login.example/{tenantid}/v2.0", True),
        ("https://elsewhere.example/{tenantid}/v2.0", False),
        ("http://login.example/{tenantid}/v2.0", False),
        ("https://login.example/organizations/v2.0", True),
        ("https://login.example/another/v2.0", False),
        ("", False),
    ],
)
def test_whose_document_it_is(issuer: str, holds: bool) -> None:
    """A document speaks for the issuer it was asked for, or for the tenants of the same origin."""
    assert discovery._is_issuer_of(issuer, "https://login.example/organizations/v2.0") is holds


@pytest.mark.parametrize(
    ("claims", "subject"),
    [
        ({"tid": "t1", "oid": "o1", "iss": "https://login.example/t1/v2.0"}, "t1:o1"),
        ({"tid": "t2", "oid": "o1", "iss": "https://login.example/t1/v2.0"}, None),
        ({"tid": "t1", "iss": "https://login.example/t1/v2.0"}, None),
    ],
)
def test_entra_knows_people_by_tenant_and_object(claims: dict[str, str], subject: str | None) -> None:
    """The issuer is the token's own tenant's; an address is verified only where the tenant has proved its domain."""
    kind = KINDS["entra"]
    told = {**claims, "email": "victim@example.com", "email_verified": True, "sub": "pairwise"}
    template = "https://login.example/{tenantid}/v2.0"
    if subject is None:
        assert not kind.is_issuer(claims["iss"], template, told) or "oid" not in claims
        if "oid" not in claims:
            with pytest.raises(UpstreamRefused):
                kind.person(told)
        return
    assert kind.is_issuer(claims["iss"], template, told)
    person = kind.person(told)
    assert (person.subject, person.email_verified) == (subject, False)
    assert kind.person({**told, "xms_edov": True}).email_verified


def test_github_has_the_verified_primary_address_alone() -> None:
    """The number of the account says who it is; other addresses count for nothing."""
    kind = KINDS["github"]
    emails = [
        {"email": "old@example.com", "primary": False, "verified": True},
        {"email": "ann@example.com", "primary": True, "verified": True},
    ]
    person = kind.person({"user": {"id": 7, "login": "ann", "name": None}, "emails": emails})
    assert (person.subject, person.email, person.email_verified, person.name) == ("7", "ann@example.com", True, "")
    unverified = [{"email": "ann@example.com", "primary": True, "verified": False}]
    assert kind.person({"user": {"id": 7}, "emails": unverified}).email == ""
    for user in ({}, {"id": "7"}, {"id": True}, None):
        with pytest.raises(UpstreamRefused):
            kind.person({"user": user, "emails": emails})


@pytest.mark.parametrize(("sub", "gets_in"), [("subject-1", True), ("another", False)])
async def test_the_address_may_be_in_userinfo(
    api: httpx.AsyncClient, provider: FakeProvider, sub: str, gets_in: bool
) -> None:
    """Where the ID token has none; an answer about another subject is refused."""
    provider.document = {"userinfo_endpoint": f"{provider.issuer}/userinfo"}
    provider.claims = {"email": None, "email_verified": None, "name": None}
    provider.userinfo = {"sub": sub, "email": "ann@example.com", "email_verified": True, "name": "Ann"}
    assert is_in(await through(api, provider)) is gets_in
    assert await User.objects.acount() == int(gets_in)


@pytest.mark.parametrize(
    "brought",
    [{"iss": "https://evil.example"}, {"iss": None}, {"code": None}, {"code": None, "error": "access_denied"}],
)
async def test_an_answer_that_does_not_hold(
    api: httpx.AsyncClient, provider: FakeProvider, brought: dict[str, str | None]
) -> None:
    """Another provider's name (mix-up), a missing one where it is promised, no code, a refusal there."""
    asked = await sent(api, provider)
    before = await world()
    assert is_page(await back(api, provider, asked, "acme", **brought), 401, "did not confirm who you are")
    assert await world() == before


async def test_a_state_is_used_once_and_in_its_browser(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """Replayed, swapped, made up or brought by another browser, it opens nothing."""
    asked = await sent(api, provider)
    assert is_page(await back(api, provider, asked, state="m4de-up"), 400, "expired")
    cookies = dict(api.cookies)
    api.cookies.clear()
    assert is_page(await back(api, provider, asked), 400, "expired")  # another browser (login CSRF)
    api.cookies.update(cookies)
    assert is_in(await back(api, provider, asked))
    assert is_page(await back(api, provider, asked), 400, "expired")


async def test_an_answer_at_another_providers_address(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """Each provider has its own redirect URI: what began with one does not end at another one's."""
    await sync_to_async(stored)("other", provider.issuer)
    asked = await sent(api, provider)
    assert is_page(await back(api, provider, asked, slug="other"), 400, "expired")
    assert is_page(await back(api, provider, asked, slug="unknown"), 400, "expired")


async def test_a_provider_switched_off_meanwhile(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """What is on its way is refused, and the button is gone."""
    asked = await sent(api, provider)
    row = await UpstreamProvider.objects.aget()
    row.enabled = False
    await row.asave()
    providers.outdated()
    assert is_page(await back(api, provider, asked), 400, "expired")
    assert "Continue with" not in (await api.get("/account/signin")).text


async def test_keys_are_rotated_meanwhile(api: httpx.AsyncClient, provider: FakeProvider, monkeypatch: Any) -> None:
    """A token of a key that is not known yet has the keys fetched again, at most once a minute."""
    await through(api, provider)
    provider.keys, provider.signer, provider.alg = [OTHER_KEY], OTHER_KEY, "ES256"
    assert is_page(await through(api, provider), 401)
    monkeypatch.setattr(discovery, "KEYS_GAP_S", 0.0)
    assert is_in(await through(api, provider))
    assert provider.asked.count("/jwks") == 2


@pytest.mark.parametrize("case", ["down", "slow", "discovery", "issuer", "private", "plain"])
async def test_a_provider_that_does_not_answer(
    api: httpx.AsyncClient, provider: FakeProvider, settings: Settings, monkeypatch: Any, case: str
) -> None:
    """The page has an answer within its limit, nothing is changed, and other ways in stay."""
    if case == "down":
        await UpstreamProvider.objects.aupdate(issuer="http://127.0.0.1:9")
    elif case == "slow":
        monkeypatch.setattr(exchange, "LIMIT_S", 0.2)
        provider.delay_s = 0.6
    elif case == "discovery":
        provider.document = {"token_endpoint": None}
    elif case == "issuer":
        provider.document = {"issuer": "https://evil.example"}
    elif case == "private":
        settings.IRONAUTH_UPSTREAM_NETWORKS = []
    else:
        settings.DEBUG = False
    providers.outdated()
    page = await send(api, await api.get("/account/signin"), UPSTREAM, provider="acme")
    assert is_page(page, 503, "does not answer")
    assert not await UpstreamSignIn.objects.aexists()


async def test_a_provider_that_is_down_on_the_way_back(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """The sign-in is used up, the page says what happened, and the person may try again."""
    asked = await sent(api, provider)
    provider.token_answer = {"x": "y" * exchange.LONGEST}
    assert is_page(await back(api, provider, asked), 503, "does not answer")
    provider.token_answer = None
    assert is_in(await through(api, provider))


async def test_the_providers_pages_answer_others(api: httpx.AsyncClient, provider: FakeProvider) -> None:
    """An unknown button, a form from another site, and an answer by POST, which becomes a GET."""
    page = await api.get("/account/signin")
    assert (await send(api, page, UPSTREAM, provider="unknown")).status_code == 404
    asked = await sent(api, provider)
    posted = await api.post(f"{UPSTREAM}/acme", data={"state": asked["state"], "code": "c"})
    assert posted.status_code == 303
    assert posted.headers["location"].startswith("/oauth/upstream/acme?state=")


async def test_the_trail(api: httpx.AsyncClient, member: Member, provider: FakeProvider) -> None:
    """A sign-up, a link and a sign-in leave their events."""
    await through(api, provider)
    events = [event async for event in AuditEvent.objects.order_by("pk").values_list("event", flat=True)]
    assert events[-2:] == ["sign_up", "sign_in"]
