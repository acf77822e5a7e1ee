"""The flow by a client without script: sign in, allow, and the code goes back. What is refused, and where."""

import json
import re
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from ironauth.infrastructure.core import clock
from tokens.clients.models import OAuthClient
from tokens.clients.tests.test_redirect_uris import ACCEPTED, REGISTERED, REJECTED
from tokens.oauth.authorize import pages as authorize_pages
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.state import AuthorizationState
from tokens.oauth.models import AuthorizationCode, Consent
from tokens.oauth.tests.material import REDIRECT_URI, make_client, make_public_client
from tokens.oauth.tests.walk import (
    AUTHORIZE,
    CHALLENGE,
    ISSUER,
    answered,
    authorize,
    by_password,
    form_to,
    is_page,
    request_of,
    say,
)
from tokens.sessions.models import SSO_CLIENT, Session
from tokens.tests.browser import Member
from tokens.tests.material import b64

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


@pytest.fixture
async def client(transactional_db: None) -> OAuthClient:
    """A confidential client of somebody else's."""
    return (await sync_to_async(make_client)())[0]


async def test_the_whole_way(api: httpx.AsyncClient, member: Member, client: OAuthClient) -> None:
    """Sign in, allow, and the client gets a code with its state and our name; the next time nobody is asked."""
    page = await authorize(api, client)
    assert is_page(page, 200, "Sign in", "Wiki")
    page = await by_password(api, page, member["email"])
    assert is_page(page, 200, "Allow Wiki?", member["email"], "See your name,", "app.example.com")
    answer = answered(await say(api, page, "allow"))
    assert (answer["state"], answer["iss"]) == ("st&te=1 é", ISSUER)
    code = await AuthorizationCode.objects.aget()
    assert (code.scope, code.nonce, str(code.user_id)) == ("openid profile", "n-1", member["id"])
    assert (code.redirect_uri, code.code_challenge) == (REDIRECT_URI, CHALLENGE)
    session = await Session.objects.aget(client_id=SSO_CLIENT)
    assert (code.sso_session_id, code.authenticated_at, code.amr) == (session.pk, session.authenticated_at, "pwd")
    assert (await Consent.objects.aget()).scope == "openid profile"
    again = answered(await authorize(api, client, prompt="none"))
    assert again["code"] != answer["code"]
    head = await api.head("/oauth/authorize", params=request_of(client, prompt="none"))
    assert (head.status_code, head.headers["allow"], "location" in head.headers) == (405, "GET, POST, OPTIONS", False)
    assert await AuthorizationCode.objects.acount() == 2


async def test_in_a_pop_up(api: httpx.AsyncClient, member: Member, client: OAuthClient) -> None:
    """No page cuts the tie to the window that opened it; the way back neither, or the callback could not reach it."""
    pages = [await authorize(api, client, display="popup")]
    pages.append(await by_password(api, pages[0], member["email"]))
    pages.append(await say(api, pages[1], "allow"))
    assert [page.status_code for page in pages] == [200, 200, 303]
    assert not any("cross-origin-opener-policy" in page.headers for page in pages)


async def test_no_is_an_answer(api: httpx.AsyncClient, member: Member, client: OAuthClient) -> None:
    """Who says no, before signing in or after, goes back with access_denied; nothing is stored."""
    first = await authorize(api, client)
    for page in (first, await by_password(api, first, member["email"])):
        answer = answered(await say(api, page, "deny"))
        assert (answer["error"], answer["state"], answer["iss"]) == ("access_denied", "st&te=1 é", ISSUER)
    assert not await AuthorizationCode.objects.aexists()
    assert not await Consent.objects.aexists()


# ------------------------------------------------------------------ where nothing may be redirected
@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": None},
        {"client_id": ""},
        {"client_id": "nobody"},
        {"client_id": "01890000-0000-7000-8000-000000000000"},
        {"redirect_uri": None},
        {"redirect_uri": ""},
        {"redirect_uri": "https://evil.example/callback"},
        {"redirect_uri": f"{REDIRECT_URI}/"},
        {"redirect_uri": f"{REDIRECT_URI}?next=https://evil.example"},
        {"redirect_uri": "javascript:alert(1)"},
        {"redirect_uri": "<script>alert(1)</script>"},
    ],
)
async def test_nothing_is_redirected_before_it_is_safe(
    api: httpx.AsyncClient, client: OAuthClient, changes: dict[str, str | None]
) -> None:
    """Without client and registered address there is a page with status 400 that repeats nothing: RFC 6749 §4.1.2.1."""
    answer = await authorize(api, client, **changes)
    assert is_page(answer, 400, "This did not work")
    assert all(str(value) not in answer.text for value in changes.values() if value)


async def test_addresses_that_mean_something_else(api: httpx.AsyncClient, transactional_db: None) -> None:
    """Each address that is not a registered one is a page without Location, the others are answered at."""
    native = await sync_to_async(make_public_client)(redirect_uris=list(REGISTERED))
    assert len(REJECTED) >= 55
    for uri in REJECTED:
        assert is_page(await authorize(api, native, redirect_uri=uri, prompt="none"), 400), uri
    for uri in ACCEPTED:
        location = (await authorize(api, native, redirect_uri=uri, prompt="none")).headers["location"]
        assert location.startswith(uri)


async def test_disabled_clients_and_repeated_addresses(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """A page, too, when client or address is not clear: client_id or redirect_uri twice, a client that was disabled."""
    for name in ("client_id", "redirect_uri"):
        asked = request_of(client)
        twice = httpx.QueryParams([*asked.items(), (name, asked[name])])
        assert is_page(await api.get(f"{AUTHORIZE}?{twice}"), 400)
    client.disabled_at = clock.now()
    await client.asave()
    assert is_page(await authorize(api, client), 400, "disabled")


async def test_too_long(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """A query of 8,000 bytes is answered, one more is a page with the reason; the same for a form."""
    asked = request_of(client, state=None)
    room = 8_000 - len(str(httpx.QueryParams({**asked, "state": ""})))
    assert (await api.get(AUTHORIZE, params={**asked, "state": "x" * room})).status_code == 200
    assert is_page(await api.get(AUTHORIZE, params={**asked, "state": "x" * (room + 1)}), 400, "8000 bytes")
    assert is_page(await api.post(AUTHORIZE, data={**asked, "state": "x" * (room + 1)}), 400, "8000 bytes")


# ------------------------------------------------------------------ what the client hears
ERRORS: list[tuple[dict[str, str | None], str]] = [
    ({"response_type": None}, "invalid_request"),
    ({"response_type": "token"}, "unsupported_response_type"),
    ({"response_type": "id_token"}, "unsupported_response_type"),
    ({"response_type": "code id_token"}, "unsupported_response_type"),
    ({"response_mode": "fragment"}, "invalid_request"),
    ({"response_mode": "web_message"}, "invalid_request"),
    ({"code_challenge": None, "code_challenge_method": None}, "invalid_request"),
    ({"code_challenge": None}, "invalid_request"),
    ({"code_challenge_method": None}, "invalid_request"),
    ({"code_challenge_method": "plain"}, "invalid_request"),
    ({"code_challenge_method": "s256"}, "invalid_request"),
    ({"code_challenge": CHALLENGE[:-1]}, "invalid_request"),
    ({"code_challenge": CHALLENGE + "="}, "invalid_request"),
    ({"code_challenge": CHALLENGE + "\n"}, "invalid_request"),
    ({"scope": None}, "invalid_scope"),
    ({"scope": "root"}, "invalid_scope"),
    ({"scope": "root account"}, "invalid_scope"),
    ({"scope": "openid  profile"}, "invalid_scope"),
    ({"scope": 'openid "'}, "invalid_scope"),
    ({"prompt": "none login"}, "invalid_request"),
    ({"prompt": "none create"}, "invalid_request"),
    ({"prompt": "created"}, "invalid_request"),
    ({"prompt": "none"}, "login_required"),
    ({"max_age": "-1"}, "invalid_request"),
    ({"max_age": "1.5"}, "invalid_request"),
    ({"max_age": "9" * 10}, "invalid_request"),
    ({"nonce": "n" * 513}, "invalid_request"),
    ({"nonce": "n\x00"}, "invalid_request"),
    ({"login_hint": "mia\x00"}, "invalid_request"),
    ({"dpop_jkt": "x"}, "invalid_request"),
    ({"request": "eyJ"}, "request_not_supported"),
    ({"request_uri": "https://app.example.com/request.jwt"}, "request_uri_not_supported"),
    ({"registration": "{}"}, "registration_not_supported"),
    ({"id_token_hint": "eyJhbGciOiJub25lIn0.e30."}, "invalid_request"),
]


async def test_errors_go_to_the_client(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Everything else is answered at the client: 303 with error, state and iss (RFC 9207), never a code."""
    for changes, error in ERRORS:
        answer = answered(await authorize(api, client, **changes))
        assert (answer["error"], answer["state"], answer["iss"]) == (error, "st&te=1 é", ISSUER), changes
        assert set(answer) == {"error", "error_description", "state", "iss"}
        assert re.fullmatch(r"[ !#-\[\]-~]+", answer["error_description"])  # RFC 6749 §4.1.2.1


async def test_scopes_a_client_may_not_have_are_ignored(
    api: httpx.AsyncClient, member: Member, client: OAuthClient
) -> None:
    """The page and the code have what is left, of the client's own settings; the person has allowed no more."""
    page = await by_password(
        api, await authorize(api, client, scope="unheard-of account profile openid"), member["email"]
    )
    assert is_page(page, 200, "See your name, language and time zone")
    assert "unheard-of" not in page.text
    assert "Do everything" not in page.text
    answered(await say(api, page, "allow"))
    assert (await AuthorizationCode.objects.aget()).scope == "openid profile"
    assert (await Consent.objects.aget()).scope == "openid profile"


async def test_the_longest_nonce(api: httpx.AsyncClient, member: Member, client: OAuthClient) -> None:
    """512 characters are kept, whichever they are."""
    nonce = "é" * 512
    page = await by_password(api, await authorize(api, client, nonce=nonce), member["email"])
    answered(await say(api, page, "allow"))
    assert (await AuthorizationCode.objects.aget()).nonce == nonce


@pytest.mark.parametrize("signature", ["", "c2ln"])
async def test_a_request_object_says_how_it_hears_its_refusal(
    api: httpx.AsyncClient, client: OAuthClient, signature: str
) -> None:
    """By the mode, and with the state, that stand only in it, signed or not; what stands beside it counts first."""
    inside = {"response_mode": "form_post", "state": "in&side", "redirect_uri": "https://evil.example/"}
    by_object: dict[str, str | None] = {"request": request_object(inside, signature), "state": None}
    page = await authorize(api, client, **by_object)
    assert is_page(page, 200, "form_post.js")
    fields = form_to(page, REDIRECT_URI).fields
    assert (fields["error"], fields["state"], fields["iss"]) == ("request_not_supported", "in&side", ISSUER)
    answer = answered(await authorize(api, client, **{**by_object, "state": "beside", "response_mode": "query"}))
    assert (answer["error"], answer["state"]) == ("request_not_supported", "beside")
    by_reference = {"request_uri": "https://app.example.com/request.jwt", "response_mode": "form_post"}
    fields = form_to(await authorize(api, client, **by_reference), REDIRECT_URI).fields
    assert (fields["error"], fields["state"]) == ("request_uri_not_supported", "st&te=1 é")
    assert is_page(await authorize(api, client, **by_object, redirect_uri="https://evil.example/"), 400)
    assert is_page(await authorize(api, client, **by_object, redirect_uri=None), 400)


@pytest.mark.parametrize(
    "inside",
    [
        b'{"state":["a"],"response_mode":{"form_post":1}}',
        b'{"state":"a\\r\\nb","response_mode":"fragment"}',
        b'{"state":"\\ud800"}',
        b'{"state":"a","state":"b"}',
        b'{"state":"' + b"a" * 2_001 + b'"}',
        b"[" * 3_000,
        b"\xff",
        b"",
    ],
)
async def test_request_objects_that_say_nothing(api: httpx.AsyncClient, client: OAuthClient, inside: bytes) -> None:
    """Whatever is in it: the error goes to the client's address, without a state."""
    answer = answered(await authorize(api, client, request=request_object(inside), state=None))
    assert answer["error"] == "request_not_supported"
    assert "state" not in answer


async def test_the_longest_state_inside(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """2,000 characters are given back."""
    longest = "&" * 2_000
    answer = answered(await authorize(api, client, request=request_object({"state": longest}), state=None))
    assert answer["state"] == longest


def request_object(said: dict[str, str] | bytes, signature: str = "") -> str:
    """Return a request object that says this, unsigned or with an invented signature."""
    payload = said if isinstance(said, bytes) else json.dumps(said).encode()
    return f"{b64(b'{"alg":"none"}')}.{b64(payload)}.{signature}"


async def test_repeated_parameters_go_to_the_client(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Any parameter twice is invalid_request (RFC 6749 §3.1); a state twice is not repeated, nor one with controls."""
    for name in ("scope", "state", "unknown"):
        asked = {**request_of(client), "unknown": "1"}
        answer = answered(await api.get(f"{AUTHORIZE}?{httpx.QueryParams([*asked.items(), (name, 'x')])}"))
        assert answer["error"] == "invalid_request"
        assert ("state" in answer) == (name != "state")
    assert "state" not in answered(await authorize(api, client, state="a\r\nLocation: https://evil.example"))


async def test_what_is_ignored(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Parameters nobody knows, empty ones, claims, display, locales and classes of assurance change nothing."""
    ignored: dict[str, str | None] = {
        "utm": "1", "claims": "{}", "display": "popup", "ui_locales": "de", "acr_values": "2", "max_age": "",
        "login_hint": "x" * 255, "prompt": "",
    }  # fmt: skip
    page = await authorize(api, client, **ignored)
    assert is_page(page, 200)
    assert not form_to(page, "/oauth/signin").fields["email"]


async def test_clients_and_their_rules(api: httpx.AsyncClient, transactional_db: None) -> None:
    """No PKCE only by the client's own rule, codes only with that grant, pushed requests where they are required."""
    relaxed, _ = await sync_to_async(make_client)(require_pkce=False)
    bare: dict[str, str | None] = {"code_challenge": None, "code_challenge_method": None}
    assert is_page(await authorize(api, relaxed, **bare), 200)
    assert answered(await authorize(api, relaxed, code_challenge=None))["error"] == "invalid_request"
    machine, _ = await sync_to_async(make_client)(grants=["client_credentials"])
    assert answered(await authorize(api, machine))["error"] == "unauthorized_client"
    pushing, _ = await sync_to_async(make_client)(require_par=True)
    assert answered(await authorize(api, pushing))["error"] == "invalid_request"


# ------------------------------------------------------------------ how the answer travels
async def test_addresses_with_a_query_and_other_ports(api: httpx.AsyncClient, transactional_db: None) -> None:
    """The answer joins the query an address has; a loopback address may have another port (RFC 8252 §7.3)."""
    uri = "https://app.example.com/cb?tenant=1"
    native = await sync_to_async(make_public_client)(redirect_uris=[uri, "http://127.0.0.1/cb"])
    location = (await authorize(api, native, redirect_uri=uri, prompt="none")).headers["location"]
    assert location.startswith(f"{uri}&error=login_required&")
    location = (await authorize(api, native, redirect_uri="http://127.0.0.1:51004/cb", prompt="none")).headers[
        "location"
    ]
    assert location.startswith("http://127.0.0.1:51004/cb?error=login_required&")


async def test_form_post(api: httpx.AsyncClient, member: Member, client: OAuthClient) -> None:
    """With response_mode=form_post the answer is a form to the client, errors too, and any state is safe in it."""
    state = '"><script>alert(1)</script>'
    page = await authorize(api, client, response_mode="form_post", state=state)
    page = await by_password(api, page, member["email"])
    answer = await say(api, page, "allow")
    assert is_page(answer, 200, "form_post.js")
    fields = form_to(answer, REDIRECT_URI).fields
    assert (fields["state"], fields["iss"], set(fields)) == (state, ISSUER, {"code", "state", "iss"})
    assert state not in answer.text
    denied = await authorize(api, client, response_mode="form_post", prompt="none", scope="root")
    assert form_to(denied, REDIRECT_URI).fields["error"] == "invalid_scope"


async def test_post_becomes_get(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """A request may be posted (OpenID Connect Core §3.1.2.1), from any site: it is sent on as GET, with our cookies."""
    answer = await api.post(AUTHORIZE, data=request_of(client), headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 303
    assert answer.headers["location"].startswith(f"{AUTHORIZE}?")
    assert is_page(await api.get(answer.headers["location"]), 200, "Sign in")


@pytest.mark.parametrize("path", ["signin", "signin/code", "signin/passkey", "consent"])
async def test_the_forms_answer_posts_of_our_pages_only(
    api: httpx.AsyncClient, path: str, transactional_db: None
) -> None:
    """A GET, another type and a post from nowhere are pages in HTML that say what to do."""
    assert is_page(await api.get(f"/oauth/{path}"), 405, "go back to the application")
    assert is_page(await api.post(f"/oauth/{path}", json={}), 415)
    assert is_page(await api.post(f"/oauth/{path}", data={"request": "x"}), 400, "has expired")


async def test_templates_of_ones_own(api: httpx.AsyncClient, client: OAuthClient, settings: Any, tmp_path: Any) -> None:
    """A block can be replaced (IRONAUTH_TEMPLATES), and the site has its name (IRONAUTH_OAUTH_SITE_NAME)."""
    settings.IRONAUTH_BRAND_NAME = "Acme <ID>"
    assert is_page(await authorize(api, client), 200, "Acme &lt;ID&gt;")
    (tmp_path / "tokens" / "oauth").mkdir(parents=True)
    own = "{% extends 'tokens/oauth/base.html' %}{% block content %}<p>Our own for {{ client.name }}</p>{% endblock %}"
    (tmp_path / "tokens" / "oauth" / "sign_in.html").write_text(own)
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [str(tmp_path)]}]
    authorize_pages._sign_in_page.cache_clear()  # a server is started anew for other templates
    assert is_page(await authorize(api, client), 200, "Our own for Wiki")


async def test_a_page_that_was_rendered_before_is_of_this_request(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Requests that differ in what nobody sees share a page, each with its own request in it; others do not."""
    authorize_pages._sign_in_page.cache_clear()
    pages = [await authorize(api, client, state=state, nonce=state) for state in ("one", "two")]
    assert authorize_pages._sign_in_page.cache_info().misses == 1
    signed_state = [form_to(page, "/oauth/signin").fields["request"] for page in pages]
    browser = api.cookies[authorization_state.cookie_name()]
    state = [authorization_state.verify(one, browser) for one in signed_state]
    assert [one.request.state for one in state if isinstance(one, AuthorizationState)] == ["one", "two"]
    suggested = [page.text.split('data-autofill="')[1].split('"')[0] for page in pages]
    assert len(set(suggested)) == 2
    texts = [
        page.text.replace(mine, "").replace(passkeys, "")
        for page, mine, passkeys in zip(pages, signed_state, suggested, strict=True)
    ]
    assert texts[0] == texts[1]
    assert pages[0].text.count(signed_state[0]) == 5  # every form of the page
    other, _secret = await sync_to_async(make_client)(name="Other")
    assert is_page(await authorize(api, other), 200, "Other")
    assert is_page(await authorize(api, client, login_hint="who@example.com"), 200, 'value="who@example.com"')
    assert "who@example.com" not in (await authorize(api, client)).text
    assert authorize_pages._sign_in_page.cache_info().misses == 2


async def test_a_scope_that_is_taken_from_the_client_meanwhile(
    api: httpx.AsyncClient, member: Member, client: OAuthClient
) -> None:
    """A page that shows it is no good any more; with one that is left the page still is."""
    page = await by_password(api, await authorize(api, client), member["email"])
    client.scopes = ["openid"]
    await client.asave()
    assert is_page(await say(api, page, "allow"), 400, "expired")
    client.scopes = ["openid", "profile"]
    await client.asave()
    assert answered(await say(api, page, "allow"))["code"]


@pytest.mark.parametrize("administers", [True, False])
async def test_what_lets_a_client_administer_has_words(
    api: httpx.AsyncClient, member: Member, client: OAuthClient, administers: bool
) -> None:
    """A person is told that the client would administer; a scope of the same name of another API is shown by it."""
    client.scopes, client.administers = ["openid", "users:read"], administers
    await client.asave()
    page = await by_password(api, await authorize(api, client, scope="openid users:read"), member["email"])
    words = "Administer this site, as far as you may: users:read"
    assert is_page(page, 200, words if administers else "users:read")
    assert (words in page.text) == administers
