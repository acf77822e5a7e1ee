"""Single sign-on: when nobody is asked, when somebody is, how long it lasts, and what ends with it."""

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import connection, transaction
from django.db.models import F

from accounts.users.models import User
from accounts.users.services import account_snapshot
from accounts.users.units import end_all_sessions
from conftest import PASSWORD, bearer
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http.client_context import ClientContext
from ironauth.infrastructure.models import Invalidation
from tokens.clients.models import OAuthClient
from tokens.clients.registry import read_client
from tokens.oauth import id_tokens
from tokens.oauth.models import AuthorizationCode, Consent, LogoutNotice
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import AUTHORIZE, answered, authorize, by_password, is_page, request_of, say
from tokens.sessions import sso_session
from tokens.sessions.client_sessions import ConsentedAccess, open_client_session
from tokens.sessions.models import Session
from tokens.sessions.queries import StoredSession
from tokens.sessions.sso_session import SsoCookie
from tokens.tests.browser import LOGOUT_ALL, ME, PASSWORD_URL, Member, Pair

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("still_clock")]

SESSIONS = "/api/v1/access/sessions"
SSO = {"client_id": "ironauth-sso"}


@pytest.fixture
async def client(transactional_db: None) -> OAuthClient:
    """One of our own clients, which asks for no consent."""
    return (await sync_to_async(make_client)(trusted=True, backchannel_logout_uri="https://app.example.com/out"))[0]


@pytest.fixture
async def foreign(transactional_db: None) -> OAuthClient:
    """Somebody else's client."""
    return (await sync_to_async(make_client)(name="Paint"))[0]


@pytest.fixture
async def signed_in(api: httpx.AsyncClient, member: Member, client: OAuthClient) -> Session:
    """The member's SSO session; the test's client has its cookie."""
    answered(await by_password(api, await authorize(api, client), member["email"]))
    return await Session.objects.aget(**SSO)


async def silently(api: httpx.AsyncClient, client: OAuthClient, **more: str | None) -> str:
    """Ask without asking anybody; return the error, "" for a code."""
    return answered(await authorize(api, client, prompt="none", **more)).get("error", "")


async def held(client: OAuthClient, session: Session, scope: str = "openid") -> uuid.UUID:
    """Open a session of the client in this SSO session, as a code does; return its id."""

    def unit() -> uuid.UUID:
        found, account = read_client(client.pk), account_snapshot(session.user_id)
        assert found is not None
        assert account is not None
        consented = ConsentedAccess(account, scope, session.authenticated_at, session.amr, session.pk)
        opened_session = open_client_session(client=found, consented=consented, context=ClientContext())
        assert opened_session is not None
        return opened_session.session_id

    return await database().write(unit)


async def is_over(session_id: uuid.UUID) -> bool:
    """Tell whether a session has been revoked."""
    return (await Session.objects.aget(pk=session_id)).revoked_at is not None


# ------------------------------------------------------------------ who is asked
async def test_nobody_is_asked_twice(
    api: httpx.AsyncClient, client: OAuthClient, foreign: OAuthClient, signed_in: Session
) -> None:
    """One sign-in serves every client; consent is asked once for a scope, more for more, and by prompt=consent."""
    assert not await silently(api, client)
    assert await silently(api, foreign) == "consent_required"
    answered(await say(api, await authorize(api, foreign), "allow"))
    assert not await silently(api, foreign)
    assert not await silently(api, foreign, scope="openid")
    assert await silently(api, foreign, scope="openid email") == "consent_required"
    answered(await say(api, await authorize(api, foreign, scope="openid email"), "allow"))
    assert (await Consent.objects.aget()).scope == "email openid profile"
    assert is_page(await authorize(api, foreign, prompt="consent"), 200, "Allow Paint?")
    assert is_page(await authorize(api, client, prompt="consent"), 200, "Allow Wiki?")
    assert is_page(await authorize(api, client, prompt="select_account"), 200, "Use another account")
    assert not await Consent.objects.filter(client=client).aexists()
    await Consent.objects.all().adelete()
    assert await silently(api, foreign) == "consent_required"


@pytest.mark.parametrize(
    ("since", "max_age", "error"), [(60, "60", ""), (61, "60", "login_required"), (1, "0", "login_required")]
)
async def test_max_age(
    api: httpx.AsyncClient, client: OAuthClient, signed_in: Session, since: int, max_age: str, error: str
) -> None:
    """Whose sign-in is older than max_age seconds signs in again, and that is the new auth_time; 0 always asks."""
    await Session.objects.filter(**SSO).aupdate(authenticated_at=clock.now() - timedelta(seconds=since - 0.5))
    assert await silently(api, client, max_age=max_age) == error


async def test_signing_in_again(
    api: httpx.AsyncClient, member: Member, client: OAuthClient, foreign: OAuthClient, signed_in: Session
) -> None:
    """prompt=login asks for the password again: same session for clients, another cookie, new auth_time."""
    before = api.cookies["sso"]
    page = await authorize(api, foreign, prompt="login")
    assert is_page(page, 200, "Password")
    with clock.shifted(100):
        page = await by_password(api, page, member["email"])
        assert is_page(page, 200, "Allow Paint?")
        answered(await say(api, page, "allow"))
    session = await Session.objects.aget(**SSO)
    assert session.pk == signed_in.pk
    assert session.authenticated_at - signed_in.authenticated_at > timedelta(seconds=99)
    code = await AuthorizationCode.objects.order_by("-created_at").afirst()
    assert code is not None
    assert code.authenticated_at == session.authenticated_at
    assert api.cookies["sso"] != before
    assert not await silently(api, client)
    api.cookies.set("sso", before, domain="testserver.local")
    assert await silently(api, client) == "login_required"  # ASVS 7.2.4


async def test_the_session_of_before_is_read_where_it_is_replaced(
    api: httpx.AsyncClient, client: OAuthClient, member: Member, signed_in: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the cookie names is read in the transaction that replaces it: nothing can end it in between."""
    page = await authorize(api, client, prompt="login")
    in_transaction: list[bool] = []
    find = sso_session.find

    def noted(cookie: SsoCookie) -> StoredSession | None:
        in_transaction.append(connection.in_atomic_block)
        return find(cookie)

    monkeypatch.setattr(sso_session, "find", noted)
    answered(await by_password(api, page, member["email"]))
    assert in_transaction == [True]
    assert await Session.objects.aget(**SSO) == signed_in


async def test_another_person(
    api: httpx.AsyncClient, member: Member, client: OAuthClient, signed_in: Session, new_email: Callable[[], str]
) -> None:
    """Who signs in as somebody else ends the SSO session that was there, with what began in it."""
    child = await held(client, signed_in)
    email = new_email()
    await api.post("/api/v1/access/signup", json={"email": email, "password": PASSWORD})
    chosen = await say(api, await authorize(api, client, prompt="consent"), "switch")
    assert is_page(chosen, 200, "Password")
    answered(await say(api, await by_password(api, chosen, email), "allow"))
    assert await is_over(signed_in.pk)
    assert await is_over(child)
    live = await Session.objects.select_related("user").aget(**SSO, revoked_at=None)
    assert live.user.email == email


async def test_what_one_is_shown_another_does_not_allow(
    api: httpx.AsyncClient, foreign: OAuthClient, client: OAuthClient, signed_in: Session, new_email: Callable[[], str]
) -> None:
    """A consent page is of the person it was shown to: after another sign-in in another tab it asks anew."""
    page = await authorize(api, foreign)
    email = new_email()
    await api.post("/api/v1/access/signup", json={"email": email, "password": PASSWORD})
    answered(await by_password(api, await authorize(api, client, prompt="login"), email))
    assert is_page(await say(api, page, "allow"), 200, "Password")
    assert not await Consent.objects.aexists()


async def test_hint(
    api: httpx.AsyncClient, member: Member, client: OAuthClient, signed_in: Session, new_email: Callable[[], str]
) -> None:
    """id_token_hint of who is there: a code; of another person: they sign in, or login_required; another's: refused."""

    async def token(user_id: str, of: OAuthClient) -> str:
        found = await database().read(read_client, of.pk)
        account = await database().read(account_snapshot, uuid.UUID(user_id))
        assert found is not None
        assert account is not None
        return await id_tokens.mint(
            client=found, account=account, scope="openid", session_id=None, authenticated_at=clock.now(), amr="pwd"
        )

    email = new_email()
    other = (await api.post("/api/v1/access/signup", json={"email": email, "password": PASSWORD})).json()["id"]
    mine, theirs = await token(member["id"], client), await token(other, client)
    assert not await silently(api, client, id_token_hint=mine)
    assert await silently(api, client, id_token_hint=theirs) == "login_required"
    page = await authorize(api, client, id_token_hint=theirs)
    assert is_page(page, 200, "Password")
    assert answered(await by_password(api, page, member["email"]))["error"] == "login_required"
    assert answered(await by_password(api, page, email))["code"]
    paint, _ = await sync_to_async(make_client)(name="Paint")
    assert await silently(api, client, id_token_hint=await token(member["id"], paint)) == "invalid_request"


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize(
    ("uri", "at", "public", "asked"),
    [
        ("com.example.app:/cb", "com.example.app:/cb", True, True),
        ("http://127.0.0.1/cb", "http://127.0.0.1:51004/cb", True, True),
        ("http://localhost:3000/cb", "http://localhost:3000/cb", True, True),
        ("https://app.example.com/cb", "https://app.example.com/cb", True, False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:51004/cb", False, False),
    ],
)
async def test_nobody_answers_for_an_address_that_anybody_can_claim(
    api: httpx.AsyncClient, member: Member, uri: str, at: str, public: bool, asked: bool, trusted: bool
) -> None:
    """A public client on a device is answered once somebody has looked, each time; one that is known, at once."""
    method = OAuthClient.AuthMethod.NONE if public else OAuthClient.AuthMethod.SECRET
    row, _ = await sync_to_async(make_client)(redirect_uris=[uri], trusted=trusted, auth_method=method)
    page = await by_password(api, await authorize(api, row, redirect_uri=at), member["email"])
    first = page if trusted else await say(api, page, "allow")  # who has just signed in for it has looked
    silent = await authorize(api, row, redirect_uri=at, prompt="none")
    again = await authorize(api, row, redirect_uri=at)
    if asked:
        assert is_page(again, 200, "Allow Wiki?")
        again = await say(api, again, "allow")
    said = [answer.headers["location"].removeprefix(f"{at}?").partition("&")[0] for answer in (first, silent, again)]
    assert [one.partition("=")[0] for one in said] == ["code", "error" if asked else "code", "code"]
    assert said[1].startswith("error=consent_required" if asked else "code=")


# ------------------------------------------------------------------ how long
async def test_limits(api: httpx.AsyncClient, client: OAuthClient, signed_in: Session, settings: Any) -> None:
    """Idle for a day and it is over, a second earlier it is not; a week ends it whatever happens."""
    day, week = settings.IRONAUTH_SSO_IDLE_S, settings.IRONAUTH_SSO_ABSOLUTE_S
    assert (day, week) == (86_400, 604_800)
    started = signed_in.created_at

    async def at(seconds: float) -> str:
        with clock.shifted((started - clock.now()).total_seconds() + seconds):
            return await silently(api, client)

    assert await at(day + 1) == "login_required"
    for days in range(1, 8):
        assert not await at(days * (day - 1))
    assert not await at(week - 1)
    assert await at(week + 1) == "login_required"


async def test_last_use_once_a_minute(api: httpx.AsyncClient, client: OAuthClient, signed_in: Session) -> None:
    """A use within a minute of the last one writes nothing to the session; a later one moves last use and idle end."""
    with clock.shifted(59):
        assert not await silently(api, client)
    same = await Session.objects.aget(**SSO)
    assert (same.last_used_at, same.idle_expires_at) == (signed_in.last_used_at, signed_in.idle_expires_at)
    with clock.shifted(61):
        assert not await silently(api, client)
    moved = await Session.objects.aget(**SSO)
    assert timedelta(seconds=60) < moved.last_used_at - signed_in.last_used_at < timedelta(seconds=90)
    assert moved.idle_expires_at - moved.last_used_at == timedelta(days=1)


async def test_query_counts(
    api: httpx.AsyncClient, client: OAuthClient, foreign: OAuthClient, signed_in: Session, statements: list[str]
) -> None:
    """With an SSO session 2 for a trusted client, 3 for one that was allowed, 3 each when last used; without, 0."""
    answered(await say(api, await authorize(api, foreign), "allow"))
    counts = []
    for one, later in ((client, 0), (foreign, 0), (client, 61)):
        statements.clear()
        with clock.shifted(later):
            assert not await silently(api, one)
        counts.append(len(statements))
    del api.cookies["sso"]
    statements.clear()
    assert is_page(await authorize(api, client), 200, "Password")
    assert [*counts, len(statements)] == [2, 3, 3, 0]


# ------------------------------------------------------------------ whose cookie
async def test_cookies_that_mean_nothing(
    api: httpx.AsyncClient, client: OAuthClient, signed_in: Session, pair: Pair
) -> None:
    """Forged, changed, of a session that is none of these, planted by an attacker: nobody is signed in by them."""
    genuine = api.cookies["sso"]
    cookie = sso_session.parse_cookie(genuine)
    assert cookie is not None
    other = sso_session.mint_cookie(
        session_id=uuid.UUID(pair["session_id"]), secret=bytes(32), master_key_id=signed_in.master_key_id
    )
    first_party = await Session.objects.aget(pk=pair["session_id"])
    of_first_party = sso_session.mint_cookie(
        session_id=first_party.pk, secret=bytes(first_party.secret), master_key_id=first_party.master_key_id
    )
    flipped = ("B" if genuine[-1] != "B" else "C").join([genuine[:-1], ""])
    for value in ("", "x", genuine + "A", flipped, other, of_first_party, pair["refresh_token"], pair["access_token"]):
        answer = await api.get(AUTHORIZE, params=request_of(client, prompt="none"), headers={"Cookie": f"sso={value}"})
        assert answered(answer)["error"] == "login_required"
    answer = await api.get(AUTHORIZE, params=request_of(client, prompt="none"), headers={"Cookie": f"sso={genuine}"})
    assert answered(answer)["code"]
    assert (await api.get("/api/v1/access/me", headers={"Authorization": f"Bearer {genuine}"})).status_code == 401
    assert (await api.post("/api/v1/access/refresh", json={"refresh_token": genuine})).status_code == 401


# ------------------------------------------------------------------ what ends it
async def _ended_in_list(api: httpx.AsyncClient, pair: Pair, session: Session) -> None:
    answer = await api.delete(f"{SESSIONS}/{session.pk}", headers=bearer(pair))
    assert answer.status_code == 204, answer.text


async def _signed_out_everywhere(api: httpx.AsyncClient, pair: Pair, _session: Session) -> None:
    assert (await api.post(LOGOUT_ALL, headers=bearer(pair))).status_code == 204


async def _password_changed(api: httpx.AsyncClient, pair: Pair, _session: Session) -> None:
    body = {"current_password": PASSWORD, "new_password": "another violet otter 9 trams"}
    assert (await api.post(PASSWORD_URL, json=body, headers=bearer(pair))).status_code == 200


async def _deactivated(_api: httpx.AsyncClient, _pair: Pair, session: Session) -> None:
    user = await User.objects.aget(pk=session.user_id)
    user.is_active = False
    await user.asave()


@pytest.mark.parametrize("end", [_ended_in_list, _signed_out_everywhere, _password_changed, _deactivated])
async def test_it_ends_as_any_session(
    api: httpx.AsyncClient, client: OAuthClient, signed_in: Session, pair: Pair, end: Any
) -> None:
    """It is in the person's list, and everything that ends sessions ends it."""
    listed = (await api.get(SESSIONS, headers=bearer(pair))).json()
    assert str(signed_in.pk) in {one["id"] for one in listed}
    browser = httpx.Cookies(api.cookies)
    await end(api, pair, signed_in)
    api.cookies = browser
    assert await silently(api, client) == "login_required"


async def _all_ended_by_staff(_api: httpx.AsyncClient, _pair: Pair, session: Session) -> None:
    user = User.objects.get_queryset().filter(pk=session.user_id)
    await sync_to_async(user.update)(session_epoch=F("session_epoch") + 1)


async def _account_deleted(api: httpx.AsyncClient, pair: Pair, _session: Session) -> None:
    assert (await api.request("DELETE", ME, json={"password": PASSWORD}, headers=bearer(pair))).status_code == 204


async def _row_deleted(_api: httpx.AsyncClient, _pair: Pair, session: Session) -> None:
    await (await User.objects.aget(pk=session.user_id)).adelete()


AT_ONCE = [
    _signed_out_everywhere, _password_changed, _deactivated, _all_ended_by_staff, _account_deleted, _row_deleted,
]  # fmt: skip


@pytest.mark.parametrize("end", AT_ONCE)
async def test_clients_hear_when_everything_ends(
    api: httpx.AsyncClient, client: OAuthClient, foreign: OAuthClient, signed_in: Session, pair: Pair, end: Any
) -> None:
    """Whatever ends all sessions of a person tells the clients that asked to be told, once, whatever they hold."""
    for scope in ("openid", "offline_access openid"):
        await held(client, signed_in, scope)
    await held(foreign, signed_in)
    await end(api, pair, signed_in)
    notice = await LogoutNotice.objects.aget()
    assert (notice.client_id, notice.session_id, notice.user_id) == (client.pk, signed_in.pk, signed_in.user_id)
    await sync_to_async(User.objects.get_queryset().update)(is_active=False)  # ends again what has ended
    assert await LogoutNotice.objects.acount() == 1


async def test_clients_hear_nothing_of_other_changes(
    api: httpx.AsyncClient, client: OAuthClient, signed_in: Session, pair: Pair
) -> None:
    """Neither when somebody else's sessions end, nor of another name, nor of what was over."""
    await held(client, signed_in)
    other = await sync_to_async(User.objects.create_user)(email="other@example.com", password=None)
    await sync_to_async(User.objects.get_queryset().filter(pk=other.pk).update)(is_active=False)
    user = await User.objects.aget(pk=signed_in.user_id)
    user.name = "Renamed"
    await user.asave()
    await Session.objects.filter(pk=signed_in.pk).aupdate(idle_expires_at=clock.now())
    user.is_active = False
    await user.asave()
    assert not await LogoutNotice.objects.aexists()


async def test_the_end_of_everything_is_one_transaction(client: OAuthClient, signed_in: Session) -> None:
    """Where it is rolled back nobody is told; it is one question for several people too."""
    await held(client, signed_in)

    def roll_back() -> None:
        User.objects.create_user("beside@example.com")
        with transaction.atomic():
            User.objects.get_queryset().update(is_active=False)
            assert LogoutNotice.objects.exists()
            transaction.set_rollback(True)

    await sync_to_async(roll_back)()
    assert not await LogoutNotice.objects.aexists()


async def test_statements_of_the_end_of_everything(
    client: OAuthClient, signed_in: Session, statements: list[str]
) -> None:
    """Signing out everywhere: 1 query more than without clients to be told; 2 more where there are any; frozen."""
    counts = []
    for scopes in ((), ("openid", "offline_access openid")):
        for scope in scopes:
            await held(client, signed_in, scope)
        statements.clear()
        await database().write(end_all_sessions, user_id=signed_in.user_id, session_id=signed_in.pk)
        counts.append(len(statements))
        user = await User.objects.aget(pk=signed_in.user_id)
        await Session.objects.filter(pk=signed_in.pk).aupdate(epoch=user.session_epoch)
    assert counts == [5, 7], statements  # one is for the kept devices


async def test_the_list_says_what_each_session_is_for(
    api: httpx.AsyncClient, client: OAuthClient, foreign: OAuthClient, signed_in: Session, pair: Pair, statements: Any
) -> None:
    """The application's name, what single sign-on is called, null for one's own; 1 query more, 0 without clients."""

    async def listed() -> tuple[dict[str, str | None], int]:
        before = len(statements)
        answer = await api.get(SESSIONS, headers=bearer(pair))
        return {one["id"]: one["application"] for one in answer.json()}, len(statements) - before

    alone = {str(signed_in.pk): "Single sign-on", pair["session_id"]: None}
    await listed()  # its session is looked up once
    assert await listed() == (alone, 1)
    first, second = await held(client, signed_in), await held(foreign, signed_in)
    assert await listed() == ({**alone, str(first): "Wiki", str(second): "Paint"}, 2)
    assert (await api.delete(f"{SESSIONS}/{first}", headers=bearer(pair))).status_code == 204
    assert await listed() == ({**alone, str(second): "Paint"}, 2)
    assert await is_over(first)


async def test_what_began_in_it_ends_with_it(client: OAuthClient, foreign: OAuthClient, signed_in: Session) -> None:
    """Clients' sessions end with it but for offline_access; who asked to be told is, once, whatever they hold."""
    online, offline = await held(client, signed_in), await held(client, signed_in, "offline_access openid")
    untold = await held(foreign, signed_in)
    similar = await held(foreign, signed_in, "not_offline_access")
    assert await database().write(sso_session.end, session_id=signed_in.pk, user_id=signed_in.user_id)
    assert [await is_over(one) for one in (signed_in.pk, online, offline, untold, similar)] == [
        True, True, False, True, True,
    ]  # fmt: skip
    notice = await LogoutNotice.objects.aget()
    assert (notice.client_id, notice.session_id, notice.user_id) == (client.pk, signed_in.pk, signed_in.user_id)
    tags = {row.tag async for row in Invalidation.objects.all()}
    assert {f"sid:{one}" for one in (signed_in.pk, online, untold, similar)} <= tags
    assert not await database().write(sso_session.end, session_id=signed_in.pk, user_id=signed_in.user_id)
    assert await LogoutNotice.objects.acount() == 1
