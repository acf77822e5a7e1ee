"""Nobody is put into a stranger's account: what signs in does so in the browser that began it, from this site alone.

A stranger begins a sign-in to their own account in their browser, and hands what they have got to a victim: an address,
or the fields of a form. In the victim's browser none of it opens a session.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.urls import URLPattern, get_resolver
from django.urls.resolvers import URLResolver
from pytest_django import Settings

from accounts.outbox.models import OutgoingMail
from accounts.outbox.queue import claim
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.sign_in_views import SignInForm
from tokens.oauth.authorize.tests.test_email_link import ask, link_of
from tokens.oauth.device.tests.test_device import begin as begin_device
from tokens.oauth.device.tests.test_device import enter, tv
from tokens.oauth.tests.flow import Party
from tokens.oauth.tests.walk import form_to, forms, send
from tokens.sessions.models import Session
from tokens.tests.browser import CROSS_SITE, SIGNIN, Member, Pair, cookie_lines
from tokens.tests.second_factor import enrol
from tokens.upstream.tests.conftest import provider, server
from tokens.upstream.tests.provider import FakeProvider
from tokens.upstream.tests.test_identities import begun
from tokens.upstream.tests.walk import back, is_in, sent, through

__all__ = ["provider", "server", "tv"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

OPENS: Final = frozenset({"access_token", "refresh_token", "sso", "sso_others"})
LINK, EMAIL, CODE = "/oauth/signin/link", "/oauth/signin/email", "/oauth/code"


@pytest.fixture(autouse=True)
def _by_email(settings: Settings) -> None:
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = True


@pytest.fixture(params=["fresh", "has begun"])
async def victim(api: httpx.AsyncClient, request: pytest.FixtureRequest) -> AsyncIterator[httpx.AsyncClient]:
    """Another browser, which has never been here, or has begun a sign-in of its own."""
    async with httpx.AsyncClient(transport=api._transport, base_url="http://testserver") as browser:
        if request.param == "has begun":
            await browser.get("/account/signin")
            assert authorization_state.cookie_name() in browser.cookies
        yield browser


def opens_nothing(answer: httpx.Response) -> bool:
    """Tell whether the answer gives the browser nothing that signs it in."""
    return answer.status_code < 500 and not OPENS & set(cookie_lines(answer))


async def proved(member: Member) -> None:
    await User.objects.filter(pk=member["id"]).aupdate(email_verified_at=clock.now())


# ---------------------------------------------------------------- which pages there are
def _views(patterns: Any, prefix: str = "") -> Iterator[tuple[str, type]]:
    for one in patterns:
        if isinstance(one, URLResolver):
            yield from _views(one.url_patterns, prefix + str(one.pattern))
        elif isinstance(one, URLPattern) and (found := getattr(one.callback, "view_class", None)):
            yield prefix + str(one.pattern), found


#: Each page that may end in a sign-in, and the fields with which it would; ``/oauth/upstream/…`` is a way back of its
#: own, below.
SIGN_INS: Final[dict[str, dict[str, str]]] = {
    "oauth/signin": {"email": "a@example.com", "password": PASSWORD},
    "oauth/signin/code": {"code": "123456"},
    "oauth/signin/passkey": {"credential": "{}"},
    "oauth/signin/email": {"email": "a@example.com"},
    "oauth/signin/link": {"token": "t"},
    "oauth/forgot": {"email": "a@example.com", "send": "1"},
    "oauth/reset": {"token": "t", "new_password": PASSWORD},
    "oauth/verify": {"token": "t", "password": PASSWORD},
    "oauth/verify-again": {"email": "a@example.com", "send": "1"},
    "oauth/signup": {"email": "a@example.com", "password": PASSWORD},
    "oauth/terms": {"terms_version": "1"},
    "oauth/code": {"code": "123456"},
    "oauth/upstream": {"provider": "acme"},
}
#: What signs in by the API, with cookies.
BY_API: Final[dict[str, dict[str, str]]] = {
    "": {"email": "a@example.com", "password": PASSWORD},
    "/mfa": {"mfa_token": "t", "code": "123456"},
    "/passkey": {"challenge_token": "t", "credential": "x"},
    "/email/confirm": {"email": "a@example.com", "code": "123456", "code_token": "t"},
}


def test_the_table_is_complete() -> None:
    """A new page that may sign in is judged here too."""
    found = {path for path, view in _views(get_resolver().url_patterns) if issubclass(view, SignInForm)}
    assert found - {"oauth/upstream/<slug:slug>"} == SIGN_INS.keys()


@pytest.mark.parametrize("path", sorted(SIGN_INS))
async def test_forms_of_another_browser(
    api: httpx.AsyncClient, victim: httpx.AsyncClient, settings: Settings, path: str
) -> None:
    """The state of a stranger's page, with fields that are complete, is refused before anything in it is read."""
    page = await api.get("/account/signin")
    state = next(form.fields["request"] for form in forms(page) if "request" in form.fields)
    answer = await victim.post(f"/{path}", data={**SIGN_INS[path], "request": state})
    assert opens_nothing(answer)
    assert answer.status_code == 400, answer.text
    answer = await victim.post(f"/{path}", data=SIGN_INS[path])
    assert opens_nothing(answer)
    assert 400 <= answer.status_code < 500


# ---------------------------------------------------------------- each way, to its end
async def test_the_way_back_from_a_provider(
    api: httpx.AsyncClient, victim: httpx.AsyncClient, provider: FakeProvider
) -> None:
    """The address with a genuine code and state of the stranger's is nothing there, and is not used up by it."""
    asked = await sent(api, provider)
    answer = await back(victim, provider, asked)
    assert opens_nothing(answer)
    assert answer.status_code == 400
    assert not await Session.objects.aexists()
    assert is_in(await back(api, provider, asked))


async def test_the_state_of_one_sign_in_in_another(
    api: httpx.AsyncClient, victim: httpx.AsyncClient, provider: FakeProvider
) -> None:
    """Also while the victim is on their own way to the provider."""
    theirs = await sent(api, provider)
    own = await sent(victim, provider)
    assert opens_nothing(await back(victim, provider, theirs))
    assert is_in(await back(victim, provider, own))


async def test_connecting_an_identity(
    api: httpx.AsyncClient, victim: httpx.AsyncClient, member: Member, pair: Pair, provider: FakeProvider
) -> None:
    """A victim who comes back with what a stranger has begun in their account connects nothing to it."""
    asked = await begun(api, provider, pair)
    answer = await back(victim, provider, asked)
    assert opens_nothing(answer)
    assert answer.status_code == 400
    assert not await User.objects.filter(identities__isnull=False).aexists()


async def test_a_mailed_link(api: httpx.AsyncClient, victim: httpx.AsyncClient, member: Member) -> None:
    """The link of a message that a stranger has asked for shows no form, and their form opens nothing."""
    await proved(member)
    link = await ask(api, await api.get("/account/signin"), member["email"])
    form = form_to(await api.get(link), LINK).fields
    shown = await victim.get(link)
    assert opens_nothing(shown)
    assert not forms(shown)
    answer = await victim.post(LINK, data=form)
    assert opens_nothing(answer)
    assert answer.status_code == 400
    assert is_in(await api.post(LINK, data=form))


async def test_a_mailed_code(api: httpx.AsyncClient, victim: httpx.AsyncClient, member: Member) -> None:
    """The right code with the stranger's form, in the victim's browser."""
    await proved(member)
    page = await send(api, await send(api, await api.get("/account/signin"), EMAIL), EMAIL, email=member["email"])
    form = form_to(page, CODE).fields
    mail = await sync_to_async(lambda: claim(OutgoingMail.objects.latest("created_at").pk))()
    assert mail is not None
    assert mail.code is not None
    answer = await victim.post(CODE, data={**form, "code": mail.code})
    assert opens_nothing(answer)
    assert answer.status_code == 400
    assert is_in(await api.post(CODE, data={**form, "code": mail.code}))


async def test_a_second_factor(api: httpx.AsyncClient, victim: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """The stranger's right password is behind them: their page with the right code, in the victim's browser."""
    app, _ = await enrol(api, pair)
    page = await send(api, await api.get("/account/signin"), "/oauth/signin", email=member["email"], password=PASSWORD)
    form = {**form_to(page, "/oauth/signin/code").fields, "code": app.code()}
    answer = await victim.post("/oauth/signin/code", data=form)
    assert opens_nothing(answer)
    assert answer.status_code == 400
    assert is_in(await api.post("/oauth/signin/code", data=form))


async def test_a_link_for_a_new_password(api: httpx.AsyncClient, victim: httpx.AsyncClient, member: Member) -> None:
    """It sets the password of the stranger's account, and signs nobody in."""
    page = await send(api, await api.get("/account/signin"), "/oauth/forgot")
    await send(api, page, "/oauth/forgot", email=member["email"])
    mail = await sync_to_async(lambda: claim(OutgoingMail.objects.latest("created_at").pk))()
    assert mail is not None
    token = str(mail.token)
    shown = await victim.get(f"/oauth/reset?token={token}")
    assert opens_nothing(shown)
    assert "request" not in form_to(shown, "/oauth/reset").fields
    answer = await victim.post("/oauth/reset", data={"token": token, "new_password": "seven amber kites over Lyon"})
    assert opens_nothing(answer)
    assert answer.status_code == 200
    assert not await Session.objects.filter(user_id=member["id"]).aexists()


async def test_a_link_of_a_sign_up(api: httpx.AsyncClient, victim: httpx.AsyncClient, settings: Settings) -> None:
    """With the stranger's password in it, it confirms the stranger's address, and signs nobody in."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    page = await send(api, await api.get("/account/signup"), "/oauth/signup", email="s@example.com", password=PASSWORD)
    assert page.status_code == 200
    mail = await sync_to_async(lambda: claim(OutgoingMail.objects.latest("created_at").pk))()
    assert mail is not None
    token = str(mail.token)
    own = form_to(await api.get(f"/oauth/verify?token={token}"), "/oauth/verify").fields
    shown = await victim.get(f"/oauth/verify?token={token}")
    assert opens_nothing(shown)
    assert "request" not in form_to(shown, "/oauth/verify").fields
    answer = await victim.post("/oauth/verify", data={**own, "password": PASSWORD})
    assert opens_nothing(answer)
    assert answer.status_code == 400
    answer = await victim.post("/oauth/verify", data={"token": token, "password": PASSWORD})
    assert opens_nothing(answer)
    assert answer.status_code == 200
    assert not await Session.objects.filter(user__email="s@example.com").aexists()


async def test_an_invitation(api: httpx.AsyncClient, victim: httpx.AsyncClient, new_email: Callable[[], str]) -> None:
    """A stranger's invitation makes their account in the victim's browser, and signs nobody in to it."""
    root = await sync_to_async(User.objects.create_superuser)("root@example.com", PASSWORD)
    pair = (await api.post(SIGNIN, json={"email": root.email, "password": PASSWORD})).json()
    invited: dict[str, Any] = {"email": new_email(), "roles": []}
    made = await api.post(
        "/api/v1/users/invitations", json=invited, headers={"Authorization": f"Bearer {pair['access_token']}"}
    )
    assert made.status_code == 201, made.text
    mail = await sync_to_async(lambda: claim(OutgoingMail.objects.get(kind="invitation").pk))()
    assert mail is not None
    shown = await victim.get(f"/account/invitation?token={mail.token}")
    assert opens_nothing(shown)
    assert invited["email"] in shown.text
    form = {"token": str(mail.token), "password": PASSWORD, "name": "Vera"}
    answer = await victim.post("/account/invitation", data=form)
    assert opens_nothing(answer)
    assert answer.status_code == 200
    assert await User.objects.filter(email=invited["email"]).aexists()
    assert await Session.objects.acount() == 1  # root's


async def test_a_devices_code(tv: Party, api: httpx.AsyncClient, victim: httpx.AsyncClient, member: Member) -> None:
    """A stranger's page that lets a device in is nobody else's; another site types no code."""
    begun = await begin_device(tv)
    page = await send(
        api, await enter(api, begun["user_code"]), "/oauth/signin", email=member["email"], password=PASSWORD
    )
    form = {**form_to(page, "/oauth/consent").fields, "decision": "allow"}
    answer = await victim.post("/oauth/consent", data=form)
    assert opens_nothing(answer)
    assert answer.status_code == 400
    assert opens_nothing(await enter(victim, begun["user_code"]))
    assert (
        await victim.post("/oauth/device", data={"user_code": begun["user_code"]}, headers=CROSS_SITE)
    ).status_code == 403


@pytest.mark.parametrize("path", sorted(BY_API))
@pytest.mark.parametrize("headers", [CROSS_SITE, {"Sec-Fetch-Site": "same-site"}, {"Origin": "null"}])
async def test_another_site_gets_no_cookies_by_the_api(
    api: httpx.AsyncClient, path: str, headers: dict[str, str]
) -> None:
    """Whatever it sends; from here it is judged."""
    body: dict[str, Any] = {**BY_API[path], "transport": "cookie"}
    if path == "/passkey":
        body["credential"] = {}
    answer = await api.post(f"{SIGNIN}{path}", json=body, headers=headers)
    assert opens_nothing(answer)
    assert (answer.status_code, answer.json()["code"]) == (403, "cross_origin")
    assert (await api.post(f"{SIGNIN}{path}", json=body, headers={"Sec-Fetch-Site": "same-origin"})).status_code != 403


# ---------------------------------------------------------------- what would be linked is said on every page
async def test_what_is_linked_is_said_on_each_page(
    api: httpx.AsyncClient, member: Member, pair: Pair, provider: FakeProvider
) -> None:
    """Up to the last one, so that nobody links a stranger's identity by a page that does not name it."""
    await proved(member)
    await enrol(api, pair)
    provider.claims = {"email": member["email"], "email_verified": False, "sub": "stranger"}
    signs_up = await through(api, provider)
    first = await send(api, signs_up, "/oauth/signin")
    who = f"Acme ({member['email']})"
    pages = [
        signs_up,
        first,
        await send(api, first, EMAIL),
        await send(api, first, "/oauth/forgot"),
        await send(api, first, "/oauth/signin", email=member["email"], password=PASSWORD),
    ]
    pages.append(await send(api, pages[2], EMAIL, email=member["email"]))
    pages.append(await api.get(await sync_to_async(link_of)(member["email"])))
    for page in pages:
        assert f"<strong>{who}</strong> signs you in here afterwards" in page.text, page.text
    plain = await send(api, await api.get("/account/signin"), EMAIL)
    assert "signs you in here afterwards" not in plain.text


def test_the_helpers_of_this_file_can_fail() -> None:
    """An answer with a session's cookie is not nothing."""
    given = httpx.Response(303, headers=[("set-cookie", "access_token=x; Path=/")])
    assert not opens_nothing(given)
