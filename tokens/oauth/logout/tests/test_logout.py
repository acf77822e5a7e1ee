"""Signing out where a client sends people to: who is asked, who is sent where, and what ends."""

from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from accounts.audit.models import AuditEvent
from ironauth.infrastructure.core import clock
from tokens.clients.models import OAuthClient
from tokens.oauth.models import LogoutNotice
from tokens.oauth.tests.material import REDIRECT_URI, make_client
from tokens.oauth.tests.walk import VERIFIER, answered, authorize, by_password, form_to, is_page
from tokens.sessions.models import SSO_CLIENT, Session
from tokens.tests.browser import Member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

LOGOUT = "/oauth/logout"
GONE = "https://app.example.com/gone?from=ironauth"


async def client(**fields: Any) -> tuple[OAuthClient, str]:
    """Return a client of this house, which asks for no consent, and its secret."""
    return await sync_to_async(make_client)(
        **{"trusted": True, "post_logout_redirect_uris": [GONE], "name": "Wiki", **fields}
    )


async def tokens_of(
    api: httpx.AsyncClient, row: OAuthClient, secret: str, member: Member, scope: str = "openid"
) -> dict[str, Any]:
    """Sign in to the client as a browser does, with a password if it must be; return its tokens."""
    page = await authorize(api, row, scope=scope)
    if page.status_code == 200:
        page = await by_password(api, page, member["email"])
    asked = {"grant_type": "authorization_code", "code": answered(page)["code"], "redirect_uri": REDIRECT_URI,
             "code_verifier": VERIFIER}  # fmt: skip
    found = await api.post("/oauth/token", data=asked, auth=(str(row.pk), secret))
    assert found.status_code == 200, found.text
    return dict(found.json())


async def live() -> list[str]:
    """Return whose sessions live."""
    return [session.client_id async for session in Session.objects.filter(revoked_at=None).order_by("created_at")]


async def signed_in(api: httpx.AsyncClient, row: OAuthClient) -> bool:
    """Tell whether the browser is still signed in here: whether a silent request gets a code."""
    return "code" in answered(await authorize(api, row, prompt="none"))


async def test_with_a_hint(api: httpx.AsyncClient, member: Member, signing_key: str) -> None:
    """A browser with its cookie and an ID token of its session is signed out at once, and sent on with the state."""
    row, secret = await client()
    found = await tokens_of(api, row, secret, member)
    assert await live() == [SSO_CLIENT, str(row.pk)]
    asked = {"id_token_hint": found["id_token"], "post_logout_redirect_uri": GONE, "state": "a&b=ä"}
    answer = await api.get(LOGOUT, params=asked)
    assert answer.status_code == 303
    assert answer.headers["location"] == f"{GONE}&state=a%26b%3D%C3%A4"
    assert 'sso=""' in answer.headers["set-cookie"]
    assert await live() == []
    assert not await signed_in(api, row)
    me = await api.get("/oauth/userinfo", headers={"Authorization": f"Bearer {found['access_token']}"})
    assert me.status_code == 401


async def test_signing_out_is_in_the_trail(api: httpx.AsyncClient, member: Member, signing_key: str) -> None:
    """One event of the person and the SSO session, however many sessions of clients end with it; none again."""
    row, secret = await client()
    found = await tokens_of(api, row, secret, member)
    sso_session = await Session.objects.aget(client_id=SSO_CLIENT)
    for _ in range(2):
        await api.get(LOGOUT, params={"id_token_hint": found["id_token"]})
    events = AuditEvent.objects.filter(event="sign_out").values_list("actor_id", "user_id", "session_id", "outcome")
    assert [event async for event in events] == [(sso_session.user_id, sso_session.user_id, sso_session.pk, "success")]


async def test_an_expired_hint(api: httpx.AsyncClient, member: Member, signing_key: str) -> None:
    """An ID token says who it was long after it has expired (§2)."""
    row, secret = await client()
    found = await tokens_of(api, row, secret, member)
    with clock.shifted(3_600):
        assert is_page(await api.get(LOGOUT, params={"id_token_hint": found["id_token"]}), 200, "You are signed out")
    assert await live() == []


async def test_a_page_where_there_is_nowhere_to_go(api: httpx.AsyncClient, signing_key: str) -> None:
    """Who is not signed in, and is not sent on, reads that."""
    assert is_page(await api.get(LOGOUT), 200, "You are signed out")


async def test_without_a_hint_somebody_is_asked(api: httpx.AsyncClient, member: Member, signing_key: str) -> None:
    """No site signs anybody out by a link or an image: the person confirms it (security-bar 52)."""
    row, secret = await client(name="<Wiki>")
    await tokens_of(api, row, secret, member)
    asked = {"client_id": str(row.pk), "post_logout_redirect_uri": GONE, "state": '"><script>'}
    page = await api.get(LOGOUT, params=asked)
    assert is_page(page, 200, "Sign out?", member["email"], "&lt;Wiki&gt;")
    assert "<script>" not in page.text
    assert "form-action 'self' https://app.example.com;" in page.headers["content-security-policy"]
    assert await live() == [SSO_CLIENT, str(row.pk)]
    answer = await api.post(LOGOUT, data=form_to(page, LOGOUT).fields)
    assert answer.headers["location"] == f"{GONE}&state=%22%3E%3Cscript%3E"
    assert answer.status_code == 303
    assert await live() == []


@pytest.mark.parametrize("origin", ["staff", "registered"])
async def test_a_stranger_asks(api: httpx.AsyncClient, member: Member, signing_key: str, origin: str) -> None:
    """Who asks is named with its host, and that nobody has checked it, where that is so."""
    row, secret = await client()
    await tokens_of(api, row, secret, member)
    stranger, _ = await client(name="Your Bank", trusted=False, origin=origin)
    page = await api.get(LOGOUT, params={"client_id": str(stranger.pk), "post_logout_redirect_uri": GONE})
    assert is_page(page, 200, "Your Bank")
    assert ("Unverified application</strong>: <strong>app.example.com</strong>" in page.text) is (origin != "staff")


@pytest.mark.parametrize("given", ["", "x" * 43, "A" * 43, "ä"])
async def test_a_made_up_confirmation(api: httpx.AsyncClient, member: Member, signing_key: str, given: str) -> None:
    """Only the page's own form confirms: a sibling site, whose forms bring the cookie, does not know its value."""
    row, secret = await client()
    await tokens_of(api, row, secret, member)
    page = await api.post(LOGOUT, data={"confirmation": given, "client_id": str(row.pk)})
    assert is_page(page, 200, "Sign out?")
    assert await live() == [SSO_CLIENT, str(row.pk)]


OURS = {"origin": "http://testserver", "sec-fetch-site": "same-origin"}


@pytest.mark.parametrize(
    ("headers", "ended"),
    [
        (OURS, True),
        ({"origin": "http://testserver"}, True),  # a browser without Fetch Metadata
        ({"origin": "http://wiki.testserver", "sec-fetch-site": "same-site"}, False),
        ({"origin": "https://evil.example", "sec-fetch-site": "cross-site"}, False),
        ({"origin": "null"}, False),
        ({}, False),
    ],
)
async def test_signing_out_of_our_own_pages(
    api: httpx.AsyncClient, member: Member, signing_key: str, headers: dict[str, str], ended: bool
) -> None:
    """Nobody is asked again who signs out of the page of their account; any other site's request is a question."""
    row, secret = await client()
    await tokens_of(api, row, secret, member)
    page = await api.post(LOGOUT, data={"confirmation": "account-page"}, headers=headers)
    assert is_page(page, 200, "You are signed out" if ended else "Sign out?")
    assert await live() == ([] if ended else [SSO_CLIENT, str(row.pk)])
    assert await signed_in(api, row) is not ended


async def test_our_own_pages_by_a_link(api: httpx.AsyncClient, member: Member, signing_key: str) -> None:
    """Only the page's own request counts: an address can be a link or an image anywhere."""
    row, secret = await client()
    await tokens_of(api, row, secret, member)
    assert is_page(await api.get(LOGOUT, params={"confirmation": "account-page"}, headers=OURS), 200, "Sign out?")
    assert await live() == [SSO_CLIENT, str(row.pk)]


async def test_our_own_pages_without_a_sso_session(api: httpx.AsyncClient, member: Member, signing_key: str) -> None:
    """Who is signed in to nothing but the pages is answered, and another browser of the person stays signed in."""
    row, secret = await client()
    await tokens_of(api, row, secret, member)
    elsewhere, api.cookies = api.cookies, httpx.Cookies()
    answer = await api.post(LOGOUT, data={"confirmation": "account-page"}, headers=OURS, follow_redirects=True)
    assert is_page(answer, 200, "You are signed out")
    api.cookies = elsewhere
    assert await signed_in(api, row)


async def test_a_form_of_another_site(api: httpx.AsyncClient, member: Member, signing_key: str) -> None:
    """A client's own form arrives without our cookie, so a GET is made of it, which brings it."""
    row, secret = await client()
    found = await tokens_of(api, row, secret, member)
    cookies, api.cookies = api.cookies, httpx.Cookies()
    asked = {"id_token_hint": found["id_token"], "post_logout_redirect_uri": GONE}
    answer = await api.post(LOGOUT, data=asked)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith(f"{LOGOUT}?id_token_hint=")
    assert await live() == [SSO_CLIENT, str(row.pk)]
    api.cookies = cookies
    assert (await api.get(answer.headers["location"])).headers["location"] == GONE
    assert await live() == []


async def test_what_is_wrong_with_a_form_of_another_site_is_told_at_once(
    api: httpx.AsyncClient, member: Member, signing_key: str
) -> None:
    """No GET is made of a form that would be refused: an address that is not registered, a parameter sent twice."""
    row, _ = await client()
    good = await api.post(LOGOUT, data={"client_id": str(row.pk), "post_logout_redirect_uri": GONE})
    assert good.status_code == 303
    for wrong, words in (
        ({"client_id": str(row.pk), "post_logout_redirect_uri": "https://evil.example/"}, "not registered"),
        ({"client_id": [str(row.pk), "other"]}, "more than once"),
        ({"state": "x" * 9_000}, "longer than"),
    ):
        assert is_page(await api.post(LOGOUT, data=wrong), 400, words)


async def test_the_hint_of_somebody_else(api: httpx.AsyncClient, member: Member, signing_key: str) -> None:
    """The ID token of one person signs nobody else out: who is there is asked."""
    row, secret = await client()
    first = await tokens_of(api, row, secret, member)
    api.cookies = httpx.Cookies()
    other = await api.post("/api/v1/access/signup", json={"email": "bob@example.com", "password": member["password"]})
    assert other.status_code == 201
    await tokens_of(api, row, secret, {**member, "email": "bob@example.com"})
    page = await api.get(LOGOUT, params={"id_token_hint": first["id_token"], "post_logout_redirect_uri": GONE})
    assert is_page(page, 200, "Sign out?", "bob@example.com")
    assert len(await live()) == 4
    assert (await api.post(LOGOUT, data=form_to(page, LOGOUT).fields)).headers["location"] == GONE
    assert len(await live()) == 2


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("shift_s", [0, 3_600])
@pytest.mark.parametrize("cookie", ["", "sso=" + "A" * 64, "sso=nonsense"])
async def test_a_hint_alone_ends_nothing(
    api: httpx.AsyncClient, member: Member, signing_key: str, method: str, shift_s: int, cookie: str
) -> None:
    """Without the cookie of the browser an ID token ends no session, and the client's address is answered as usual."""
    row, secret = await client(backchannel_logout_uri="https://app.example.com/logout")
    found = await tokens_of(api, row, secret, member)
    browser, api.cookies = api.cookies, httpx.Cookies()
    asked = {"id_token_hint": found["id_token"], "post_logout_redirect_uri": GONE, "client_id": str(row.pk)}
    headers = {"Cookie": cookie} if cookie else {}
    with clock.shifted(shift_s):
        by_link = method == "GET"
        answer = await api.request(
            method, LOGOUT, params=asked if by_link else None, data=None if by_link else asked, headers=headers
        )
        if answer.headers["location"].startswith(LOGOUT):
            answer = await api.get(answer.headers["location"], headers=headers)
        assert (answer.status_code, answer.headers["location"]) == (303, GONE)
        assert ("set-cookie" in answer.headers) is bool(cookie)
        assert await live() == [SSO_CLIENT, str(row.pk)]
        assert await LogoutNotice.objects.acount() == 0
        api.cookies = browser
        assert await signed_in(api, row)


@pytest.mark.parametrize("shift_s", [0, 3_600])
async def test_the_hint_of_another_session(
    api: httpx.AsyncClient, member: Member, signing_key: str, shift_s: int
) -> None:
    """An ID token that the same person got in another browser says nothing about this one: they are asked here."""
    row, secret = await client()
    found = await tokens_of(api, row, secret, member)
    elsewhere, api.cookies = api.cookies, httpx.Cookies()
    await tokens_of(api, row, secret, member)
    with clock.shifted(shift_s):
        page = await api.get(LOGOUT, params={"id_token_hint": found["id_token"], "post_logout_redirect_uri": GONE})
        assert is_page(page, 200, "Sign out?", member["email"])
        assert len(await live()) == 4
        assert (await api.post(LOGOUT, data=form_to(page, LOGOUT).fields)).headers["location"] == GONE
        assert len(await live()) == 2
        assert not await signed_in(api, row)
        api.cookies = elsewhere
        assert await signed_in(api, row)


async def test_the_hint_of_a_session_that_is_over(api: httpx.AsyncClient, member: Member, signing_key: str) -> None:
    """An ID token from before the last sign-out of this browser does not end what began since."""
    row, secret = await client()
    found = await tokens_of(api, row, secret, member)
    await api.get(LOGOUT, params={"id_token_hint": found["id_token"]})
    await tokens_of(api, row, secret, member)
    assert is_page(await api.get(LOGOUT, params={"id_token_hint": found["id_token"]}), 200, "Sign out?")
    assert await signed_in(api, row)


@pytest.mark.parametrize(
    "uri",
    [
        "https://evil.example/",
        "https://app.example.com/gone",
        GONE + "&x=1",
        GONE + "#",
        REDIRECT_URI,
        "https://APP.example.com/gone?from=ironauth",
        "javascript:alert(1)",
        "//evil.example",
    ],
)
async def test_nowhere_else(api: httpx.AsyncClient, member: Member, signing_key: str, uri: str) -> None:
    """Only a registered address, character by character: else a page explains it, and nobody is signed out."""
    row, secret = await client()
    found = await tokens_of(api, row, secret, member)
    for more in ({"id_token_hint": found["id_token"]}, {"client_id": str(row.pk)}, {}):
        answer = await api.get(LOGOUT, params={"post_logout_redirect_uri": uri, **more})
        assert is_page(answer, 400, "not registered")
    assert is_page(await api.post(LOGOUT, data={"post_logout_redirect_uri": uri}), 400, "not registered")
    assert await live() == [SSO_CLIENT, str(row.pk)]


async def test_what_contradicts_itself(api: httpx.AsyncClient, member: Member, signing_key: str) -> None:
    """Two clients in one request, and a parameter sent twice, are nothing to guess about."""
    row, secret = await client()
    other, _ = await client(name="Other")
    found = await tokens_of(api, row, secret, member)
    asked = {"id_token_hint": found["id_token"], "client_id": str(other.pk)}
    assert is_page(await api.get(LOGOUT, params=asked), 400, "another application")
    twice = await api.get(f"{LOGOUT}?state=a&state=b")
    assert is_page(twice, 400, "more than once")
    assert is_page(await api.post(LOGOUT, data={"state": "x" * 9_000}), 400, "longer than")
    assert await live() == [SSO_CLIENT, str(row.pk)]


async def test_a_hint_that_cannot_be_verified(api: httpx.AsyncClient, member: Member, signing_key: str) -> None:
    """It counts as none, and sends nobody anywhere (§4): the key may have been dropped, or the token be made up."""
    row, secret = await client()
    found = await tokens_of(api, row, secret, member)
    for hint in (found["access_token"], found["id_token"][:-4] + "AAAA", "nonsense"):
        asked = {"id_token_hint": hint, "client_id": str(row.pk), "post_logout_redirect_uri": GONE}
        page = await api.get(LOGOUT, params=asked)
        assert is_page(page, 200, "Sign out?")
        assert "post_logout_redirect_uri" not in form_to(page, LOGOUT).fields
    assert await live() == [SSO_CLIENT, str(row.pk)]


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_pairwise(api: httpx.AsyncClient, member: Member, signing_key: str, elsewhere: bool) -> None:
    """The hint of a pairwise client names person and session by other ids, understood in the browser they are for."""
    row, secret = await client(subject_type="pairwise")
    found = await tokens_of(api, row, secret, member)
    if elsewhere:
        api.cookies.clear()
    answer = await api.get(LOGOUT, params={"id_token_hint": found["id_token"], "post_logout_redirect_uri": GONE})
    assert answer.headers["location"] == GONE
    assert await live() == ([SSO_CLIENT, str(row.pk)] if elsewhere else [])


async def test_offline_access_outlives_it(api: httpx.AsyncClient, member: Member, signing_key: str) -> None:
    """Who was given offline_access keeps it; every client with an address for it will be told."""
    online, online_secret = await client(backchannel_logout_uri="https://app.example.com/logout")
    offline, offline_secret = await client(name="Backup", backchannel_logout_uri="https://app.example.com/logout2")
    deaf, deaf_secret = await client(name="Deaf")
    found = await tokens_of(api, online, online_secret, member)
    await tokens_of(api, offline, offline_secret, member, "openid offline_access")
    await tokens_of(api, deaf, deaf_secret, member)
    await api.get(LOGOUT, params={"id_token_hint": found["id_token"]})
    assert await live() == [str(offline.pk)]
    notices = {notice.client_id async for notice in LogoutNotice.objects.all()}
    assert notices == {online.pk, offline.pk}


async def test_no_other_site_takes_the_cookie(api: httpx.AsyncClient, member: Member, signing_key: str) -> None:
    """Its form comes without cookies, whatever it says was confirmed: a GET is made of it, and the person is asked."""
    row, secret = await client()
    await tokens_of(api, row, secret, member)
    kept = dict(api.cookies)
    api.cookies.clear()
    answer = await api.post(LOGOUT, data={"confirmation": "A" * 43, "client_id": str(row.pk)})
    assert (answer.status_code, answer.headers["location"]) == (303, f"{LOGOUT}?client_id={row.pk}")
    assert "set-cookie" not in answer.headers
    api.cookies.update(kept)
    assert is_page(await api.get(answer.headers["location"]), 200, "Sign out?")
    assert await signed_in(api, row)
