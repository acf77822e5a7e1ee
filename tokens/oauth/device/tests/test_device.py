"""Devices without a browser (RFC 8628): the two codes, the pages, and what the device is told meanwhile."""

import asyncio
import json
import uuid
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.test import override_settings

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.users.models import User
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import Throttled
from ironauth.infrastructure.http.second_clicks import WITHIN_S
from tokens.clients.models import OAuthClient
from tokens.oauth import device_codes
from tokens.oauth.device import counts as device_counts
from tokens.oauth.device.units import LIFE_S
from tokens.oauth.models import Consent, DeviceGrant
from tokens.oauth.tests.flow import TOKEN, Party
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.proofs import new_key, proof
from tokens.oauth.tests.walk import by_password, form_to, is_page, say
from tokens.oauth.token.tests.test_token_code import said
from tokens.sessions.models import SSO_CLIENT, Session
from tokens.tests.browser import Member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("still_clock")]

BEGIN = "/oauth/device_authorization"
DEVICE = "/oauth/device"
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
SCOPE = "offline_access openid profile"


@pytest.fixture
async def tv(api: httpx.AsyncClient, signing_key: str) -> Party:
    """An application on a television: a public client."""
    given: dict[str, Any] = {"auth_method": OAuthClient.AuthMethod.NONE, "redirect_uris": [], "grants": [
        DEVICE_CODE, "refresh_token"]}  # fmt: skip
    return Party(api, *await sync_to_async(make_client)(name="Cinema", **given))


async def begin(party: Party, scope: str = SCOPE) -> Any:
    """Return the codes of a device that waits."""
    answer = await party.post(BEGIN, scope=scope)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def ask(party: Party, begun: Any, error: str = "") -> Any:
    """Ask for the device's tokens; the answer is this error, or there are some."""
    answer = await party.post(TOKEN, grant_type=DEVICE_CODE, device_code=begun["device_code"])
    assert answer.status_code == (400 if error else 200), answer.text
    assert answer.json().get("error", "") == error
    return answer.json()


async def enter(api: httpx.AsyncClient, code: str, **headers: str) -> httpx.Response:
    """Type a code into the page."""
    return await api.post(DEVICE, data={"user_code": code}, headers=headers)


async def confirmed(api: httpx.AsyncClient, begun: Any, member: Member, decision: str = "allow") -> httpx.Response:
    """Type the code, sign in and answer."""
    page = await by_password(api, await enter(api, begun["user_code"]), member["email"])
    return await say(api, page, decision)


async def test_the_codes(tv: Party, settings: Any) -> None:
    """RFC 8628 §3.2, §6.1; of neither is there more in the database than a digest or a MAC."""
    begun = await begin(tv)
    shown = begun["user_code"]
    assert (begun["expires_in"], begun["interval"]) == (600, 5)
    assert begun["verification_uri"] == f"{settings.IRONAUTH_ISSUER}{DEVICE}"
    assert begun["verification_uri_complete"] == f"{settings.IRONAUTH_ISSUER}{DEVICE}?user_code={shown}"
    assert (len(shown), shown[4], set(shown) - {"-"} <= set("BCDFGHJKLMNPQRSTVWXZ")) == (9, "-", True)
    assert len(begun["device_code"]) == 43
    row = await DeviceGrant.objects.aget()
    stored = json.dumps([str(value) for value in vars(row).values()])
    assert begun["device_code"] not in stored
    assert shown not in stored
    assert shown.replace("-", "") not in stored


@pytest.mark.parametrize("text", ["WDJB-MJHT", "wdjbmjht", " wdjb mjht ", "WDJB\u2013MJHT", "w.d.j.b_mjht"])
def test_typed_codes(text: str) -> None:
    """Case, blanks and dashes do not matter."""
    assert device_codes.typed(text) == "WDJBMJHT"


@pytest.mark.parametrize("text", ["", "WDJB", "WDJB-MJHTT", "WDJB-MJHA", "WDJB-MJH1", "x" * 100, "ß" * 8])
def test_what_is_no_code(text: str) -> None:
    """Other letters and lengths."""
    assert device_codes.typed(text) is None


async def test_a_device_signs_in(tv: Party, api: httpx.AsyncClient, member: Member) -> None:
    """It waits, its person types the code, signs in, and says yes; then it gets tokens, once, as itself."""
    begun = await begin(tv)
    await ask(tv, begun, "authorization_pending")
    page = await enter(api, begun["user_code"].lower())
    assert is_page(page, 200, "Sign in", "Cinema")
    page = await by_password(api, page, member["email"])
    assert is_page(
        page,
        200,
        "Is this your device?",
        begun["user_code"],
        "Cinema",
        "See your name,",
        member["email"],
    )
    with clock.shifted(6):
        await ask(tv, begun, "authorization_pending")
    assert is_page(await say(api, page, "allow"), 200, "Your device is connected")
    api.headers["User-Agent"] = "Television/1.0"
    tokens = await ask(tv, begun)
    claims = said(tokens["access_token"])
    assert (claims["sub"], claims["client_id"], claims["scope"]) == (member["id"], str(tv.client.pk), SCOPE)
    assert said(tokens["id_token"])["amr"] == ["pwd"]
    assert (await tv.refresh(tokens["refresh_token"])).status_code == 200
    session = await Session.objects.aget(pk=claims["sid"])
    assert (session.user_agent, session.parent_id is not None) == ("Television/1.0", True)
    await ask(tv, begun, "invalid_grant")
    assert (await Consent.objects.aget()).scope == SCOPE
    event = await AuditEvent.objects.aget(event="device_allowed")
    assert (str(event.user_id), event.details["client"]) == (member["id"], str(tv.client.pk))


async def test_who_is_signed_in_is_asked_all_the_same(tv: Party, api: httpx.AsyncClient, member: Member) -> None:
    """Also for a client of our own, and for what was allowed before (RFC 8628 §5.4); another account can be chosen."""
    tv.client.trusted = True
    await sync_to_async(tv.client.save)()
    await confirmed(api, await begin(tv), member)
    page = await enter(api, (await begin(tv))["user_code"])
    assert is_page(page, 200, "Is this your device?")
    assert is_page(await say(api, page, "switch"), 200, "Sign in")
    assert not await Consent.objects.aexists()


async def test_what_staff_take_meanwhile_is_gone(tv: Party, api: httpx.AsyncClient, member: Member) -> None:
    """A scope that the client loses between the person's yes and its question; the others stay."""
    begun = await begin(tv, "openid profile")
    await confirmed(api, begun, member)
    await OAuthClient.objects.filter(pk=tv.client.pk).aupdate(scopes=["openid"])
    token_cache().clear()
    tokens = await ask(tv, begun)
    assert (tokens["scope"], said(tokens["access_token"])["scope"]) == ("openid", "openid")


async def test_a_second_click_on_yes(tv: Party, api: httpx.AsyncClient, member: Member) -> None:
    """It says what the first one said; a while later, or from another browser, there is no device that waits."""
    begun = await begin(tv)
    page = await by_password(api, await enter(api, begun["user_code"]), member["email"])
    for _ in range(2):
        assert is_page(await say(api, page, "allow"), 200, "Your device is connected")
    with clock.shifted(WITHIN_S + 1):
        assert is_page(await say(api, page, "allow"), 400, "No device waits")
    await ask(tv, begun)
    await ask(tv, begun, "invalid_grant")


async def test_no_is_told(tv: Party, api: httpx.AsyncClient, member: Member) -> None:
    """Who says no, before or after signing in, has the device told so."""
    begun = await begin(tv)
    assert is_page(await confirmed(api, begun, member, "deny"), 200, "Your device is not connected")
    await ask(tv, begun, "access_denied")
    api.cookies = httpx.Cookies()
    begun = await begin(tv)
    assert is_page(await say(api, await enter(api, begun["user_code"]), "deny"), 200, "not connected")
    await ask(tv, begun, "access_denied")
    assert is_page(await enter(api, begun["user_code"]), 400, "No device waits")


async def test_the_interval(tv: Party) -> None:
    """Five seconds between two questions, less one for the way; one that comes sooner is told to slow down."""
    begun = await begin(tv)
    at = 0.0
    for after_s, error in ((0, "authorization_pending"), (5, "authorization_pending"), (3.9, "slow_down"),
                           (0.2, "authorization_pending"), (2, "slow_down"), (3, "authorization_pending")):  # fmt: skip
        at += after_s
        with clock.shifted(at):
            await ask(tv, begun, error)


def writes(seen: list[str]) -> list[str]:
    """Return the statements that write."""
    return [sql for sql in seen if not sql.lstrip().startswith("SELECT")]


@pytest.mark.parametrize("bound", [False, True])
async def test_waiting_within_the_interval_writes_nothing(tv: Party, statements: list[str], bound: bool) -> None:
    """A device that asks too soon costs one reading; one that keeps its interval one writing, with a proof too."""
    key = new_key()

    def prove(path: str) -> None:
        tv.headers = {"DPoP": proof(key, "POST", path)} if bound else {}

    prove(BEGIN)
    begun = await begin(tv)
    prove(TOKEN)
    await ask(tv, begun, "authorization_pending")
    statements.clear()
    for _ in range(3):
        prove(TOKEN)
        await ask(tv, begun, "slow_down")
    assert (len(statements), writes(statements)) == (3, [])
    statements.clear()
    with clock.shifted(5):
        prove(TOKEN)
        await ask(tv, begun, "authorization_pending")
    assert (len(statements), len(writes(statements))) == (2, 1)
    statements.clear()
    with clock.shifted(LIFE_S + 1):
        prove(TOKEN)
        await ask(tv, begun, "expired_token")
    assert writes(statements) == []


async def test_asking_too_soon_is_counted_for_each_client(
    tv: Party, api: httpx.AsyncClient, statements: list[str]
) -> None:
    """A client's devices that never rest are refused without the database; other clients and networks are not."""
    elsewhere: Any = api._transport
    other = Party(api, *await sync_to_async(make_client)(name="Radio", grants=[DEVICE_CODE], redirect_uris=[]))
    mine, theirs = await begin(tv), await begin(other)
    kept, allowed = await begin(tv), 4
    with override_settings(IRONAUTH_THROTTLE_BAD_REFRESHES=allowed, IRONAUTH_THROTTLE=True):
        for begun in (mine, mine, mine, mine, mine):
            answer = await tv.post(TOKEN, grant_type=DEVICE_CODE, device_code=begun["device_code"])
            assert answer.json()["error"] in ("authorization_pending", "slow_down")
        for number, begun in enumerate((mine, kept)):
            await asyncio.to_thread(audit.wait_until_written)
            statements.clear()
            answer = await tv.post(TOKEN, grant_type=DEVICE_CODE, device_code=begun["device_code"])
            assert (answer.status_code, answer.json()["error"]) == (429, "temporarily_unavailable")
            assert 0 < int(answer.headers["retry-after"]) <= 900
            assert number == 0 or statements == []
        await ask(other, theirs, "authorization_pending")
        elsewhere.client = ("198.51.100.9", 123)
        await ask(tv, kept, "authorization_pending")
        elsewhere.client = ("127.0.0.1", 123)
        with clock.shifted(901):
            await ask(tv, mine, "expired_token")
    assert await sync_to_async(AuditEvent.objects.filter(event="throttled").count)() == 1


async def test_a_rented_48_is_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks of a /48 that stay below the limit fill the count of ten times as many; another /48 is let in."""
    monkeypatch.setattr(device_counts, "_counts", {})
    with override_settings(IRONAUTH_THROTTLE_BAD_REFRESHES=5, IRONAUTH_THROTTLE=True):
        for number in range(50):
            await device_counts.refuse_full("tv", f"2001:db8:5:{number:x}::1")
            device_counts.count("tv", f"2001:db8:5:{number:x}::1")
        with pytest.raises(Throttled):
            await device_counts.refuse_full("tv", "2001:db8:5:ffff::1")
        await device_counts.refuse_full("tv", "2001:db8:6::1")
        await device_counts.refuse_full("radio", "2001:db8:5:ffff::1")


def test_counts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many clients and networks ask too soon, the memory they take has an end."""
    monkeypatch.setattr(device_counts, "_counts", {})
    monkeypatch.setattr(device_counts, "MOST", 20)
    with override_settings(IRONAUTH_THROTTLE=True):
        for number in range(100):
            device_counts.count(f"client-{number}", "203.0.113.9")
    assert len(device_counts._counts) <= 20


async def test_codes_end(tv: Party, api: httpx.AsyncClient, member: Member) -> None:
    """After ten minutes neither code is good, not even one that was allowed; a second earlier both are."""
    begun, late = await begin(tv), await begin(tv)
    page = await by_password(api, await enter(api, late["user_code"]), member["email"])
    with clock.shifted(LIFE_S - 1):
        assert is_page(await enter(api, begun["user_code"]), 200)
        await ask(tv, begun, "authorization_pending")
    with clock.shifted(LIFE_S + 1):
        assert is_page(await enter(api, begun["user_code"]), 400, "No device waits")
        assert is_page(await say(api, page, "allow"), 400, "No device waits")
        await ask(tv, begun, "expired_token")


async def test_codes_belong_to_their_client(tv: Party, wiki: Party, api: httpx.AsyncClient, member: Member) -> None:
    """Another client's device code is invalid_grant, and stays good; grant and scope must be the client's."""
    other = Party(api, *await sync_to_async(make_client)(grants=[DEVICE_CODE], redirect_uris=[]))
    begun = await begin(tv)
    await confirmed(api, begun, member)
    await ask(other, begun, "invalid_grant")
    await ask(tv, {"device_code": "x"}, "invalid_grant")
    assert (await tv.post(TOKEN, grant_type=DEVICE_CODE)).json()["error"] == "invalid_request"
    assert (await wiki.post(BEGIN, scope="openid")).json()["error"] == "unauthorized_client"
    for scope in ("reports", ""):
        assert (await tv.post(BEGIN, scope=scope)).json()["error"] == "invalid_scope"
    other.secret = "wrong"
    assert (await other.post(BEGIN, scope="openid")).status_code == 401
    await ask(tv, begun)


async def test_scopes_a_client_may_not_have_are_ignored(tv: Party, api: httpx.AsyncClient, member: Member) -> None:
    """The page asks for what is left, and the answer with the tokens names it."""
    begun = await begin(tv, "openid reports account profile")
    page = await by_password(api, await enter(api, begun["user_code"]), member["email"])
    assert is_page(page, 200, "See your name,")
    assert "reports" not in page.text
    await say(api, page, "allow")
    tokens = await ask(tv, begun)
    assert (tokens["scope"], said(tokens["access_token"])["scope"]) == ("openid profile", "openid profile")


@pytest.mark.parametrize("end", ["deactivated", "epoch", "signed out"])
async def test_people_who_are_gone(tv: Party, api: httpx.AsyncClient, member: Member, end: str) -> None:
    """Who was deactivated, or ended all sessions or the SSO session, between yes and tokens gives none."""
    begun = await begin(tv, "openid")
    await confirmed(api, begun, member)
    if end == "signed out":
        session = await Session.objects.aget(client_id=SSO_CLIENT)
        session.revoked_at = clock.now()
        await sync_to_async(session.save)()
    else:
        user = await User.objects.aget(pk=uuid.UUID(member["id"]))
        user.is_active = end != "deactivated"
        user.session_epoch += end == "epoch"
        await sync_to_async(user.save)()
    await ask(tv, begun, "invalid_grant")


async def test_the_pages_are_not_another_sites(tv: Party, api: httpx.AsyncClient, member: Member) -> None:
    """A form of another site is refused, a page of one browser is nothing in another, and a link does nothing."""
    begun = await begin(tv)
    assert is_page(await enter(api, begun["user_code"], Origin="https://evil.example"), 403)
    linked = await api.get(DEVICE, params={"user_code": begun["user_code"]})
    assert is_page(linked, 200, f'value="{begun["user_code"]}"')
    assert form_to(linked, DEVICE).fields["user_code"] == begun["user_code"]
    assert is_page(await api.get(DEVICE, params={"user_code": '"><script>'}), 200, 'value=""')
    page = await by_password(api, await enter(api, begun["user_code"]), member["email"])
    api.cookies.delete("authorize")
    assert is_page(await say(api, page, "allow"), 400, "expired")
    await ask(tv, begun, "authorization_pending")


async def test_guessing_is_throttled(tv: Party, api: httpx.AsyncClient, member: Member) -> None:
    """RFC 8628 §5.1: so many codes from an address, or by a person, and then not even the right one."""
    begun = await begin(tv)
    assert is_page(await confirmed(api, begun, member), 200, "connected")
    begun = await begin(tv)
    with override_settings(IRONAUTH_THROTTLE_SIGNIN_FAILURES=5, IRONAUTH_THROTTLE=True):
        for _ in range(5):
            assert is_page(await enter(api, "BBBB-BBBB"), 400, "No device waits")
        assert is_page(await enter(api, "no code"), 400, "No device waits")
        assert is_page(await enter(api, begun["user_code"]), 429, "too many")
        elsewhere: Any = api._transport
        elsewhere.client = ("192.0.2.9", 123)
        assert is_page(await enter(api, begun["user_code"]), 429, "too many")
        api.cookies = httpx.Cookies()
        assert is_page(await enter(api, begun["user_code"]), 200, "Sign in")


async def test_bound_devices(tv: Party, api: httpx.AsyncClient, member: Member) -> None:
    """A device that begins with a proof of its key gets tokens with proofs of that key alone."""
    key = new_key()
    tv.headers = {"DPoP": proof(key, "POST", BEGIN)}
    begun = await begin(tv)
    await confirmed(api, begun, member)
    tv.headers = {"DPoP": proof(new_key(), "POST", TOKEN)}
    await ask(tv, begun, "invalid_grant")
    tv.headers = {"DPoP": proof(key, "POST", TOKEN)}
    assert (await ask(tv, begun))["token_type"] == "DPoP"
