"""Ways through every page that people see, with everything that the pages refuse on them."""

import json
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from html import unescape
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
from asgiref.sync import sync_to_async
from django.db import transaction
from pytest_django import Settings

from accounts.federation.models import Identity
from accounts.invitations import units as invitations
from accounts.mfa.passkeys.models import Passkey
from accounts.outbox import rendering
from accounts.outbox import tokens as email_tokens
from accounts.outbox.kinds import Kind
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.outbox.queue import Claimed, claim
from accounts.pages.acts import ROWS
from accounts.pages.proving import PROOFS
from accounts.tests.authenticator import Authenticator
from accounts.users.models import User
from accounts.users.step_up import RECENT_S
from conftest import PASSWORD
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http.client_context import ClientContext
from ironauth.tests.languages.marked import READER, Readings, heard
from tokens.access.credentials import access_name
from tokens.keys.store import key_store
from tokens.oauth.models import Consent
from tokens.oauth.tests.material import REDIRECT_URI, make_client
from tokens.oauth.tests.walk import AUTHORIZE, form_to, forms, request_of, send
from tokens.protocol import GrantType
from tokens.sessions.access_tokens import token_pair
from tokens.sessions.acting import units as acting
from tokens.sessions.models import Session
from tokens.sessions.queries import OpenedSession
from tokens.tests.browser import CROSS_SITE, SAME_ORIGIN
from tokens.tests.second_factor import App
from tokens.upstream import discovery
from tokens.upstream.tests.provider import FakeProvider
from tokens.upstream.tests.walk import back

NEW_PASSWORD: Final = "seven amber kites over Lyon"
WRONG: Final = "no such password as this one"
HOME: Final = "/account/security"
#: In letters that no rule of the test takes for English.
CLIENT: Final = "Вики"
PERSON: Final = "Мия"
AGENT: Final = "Mozilla/5.0 (Windows NT 10.0) Firefox/140.0"
#: What browsers, systems and languages are called in every language, and where a client lives.
NAMED: Final = frozenset({AGENT, "Firefox", "Windows", "Deutsch", "app.example.com"})
#: What people type by mistake, for each rule that a field of theirs may have.
ADDRESSES: Final = (
    "",
    "nobody",
    "a\0@example.com",
    "ﬁ@example.com",
    "x" * 300 + "@example.com",
    f"{'x' * 65}@example.com",
)
NAMES: Final = ("x" * 151, "a\u202eb")
PASSWORDS: Final = (
    "", "short", "x" * 1_100, "aaaaaaaaaaaaaaaaaa", "abcdefghijklmnopqrstuvwxyz", "password12345678",
)  # fmt: skip


class Browser:
    """A browser whose every page is read, and what the walks need to know of this server."""

    def __init__(self, api: httpx.AsyncClient, readings: Readings, settings: Settings, provider: FakeProvider) -> None:
        self.api, self.readings, self.settings, self.provider = api, readings, settings, provider
        self.typed: set[str] = set(NAMED)
        api.event_hooks["response"].append(self._read)
        api.headers.update({"Accept-Language": "de", "Accept": "text/html", "User-Agent": AGENT})

    async def _read(self, response: httpx.Response) -> None:
        await response.aread()
        heard(self.readings, response, *self.typed)

    async def get(self, path: str, **params: str) -> httpx.Response:
        """Open a page."""
        return await self.api.get(path, params=params or None)

    async def post(self, path: str, headers: dict[str, str] | None = None, /, **typed: str) -> httpx.Response:
        """Send a form as it is."""
        return await self.api.post(path, data=typed, headers=headers)

    async def send(self, page: httpx.Response, action: str, **typed: str) -> httpx.Response:
        """Fill in the page's form, and send it."""
        self.typed |= {value for value in typed.values() if len(value) > 2}
        return await send(self.api, page, action, **typed)

    async def leave(self) -> None:
        """Forget everything."""
        self.api.cookies.clear()

    async def signed_in(self, email: str, password: str = PASSWORD) -> httpx.Response:
        """Sign in by the pages."""
        await self.leave()
        page = await self.get("/account/signin")
        return await self.send(page, "/oauth/signin", email=email, password=password)

    async def press(self, section: str, act: str, item: object = "", /, **typed: str) -> httpx.Response:
        """Send the form of an act on the page of a row, and look at what follows."""
        path = f"{HOME}/{section}/{item}" if item else f"{HOME}/{section}"
        mark = form_mark((await self.get(HOME)).text)
        self.typed |= {value for value in typed.values() if len(value) > 2}
        answer = await self.api.post(path, data={**typed, "form": mark, "act": act}, headers=SAME_ORIGIN)
        if answer.status_code == 303:
            return await self.get(answer.headers["location"])
        return answer


type Walk = Callable[[Browser], Awaitable[None]]


def form_mark(text: str) -> str:
    """Return what the forms of an account's page carry."""
    found = re.search(r'name="form" value="([^"]+)"', text)
    assert found is not None, text
    return found[1]


async def person(email: str, **fields: Any) -> User:
    """Return a new person, whose address is proved unless ``fields`` say otherwise."""
    given = {"password": PASSWORD, "name": PERSON, "email_verified_at": clock.now(), **fields}
    return await sync_to_async(User.objects.create_user)(email=email, **given)


async def client_of(**fields: Any) -> Any:
    """Return a new client, which asks for consent unless ``fields`` say otherwise."""
    given = {
        "name": CLIENT,
        "scopes": ["openid", "profile", "email", "roles", "account", "offline_access"],
        "post_logout_redirect_uris": ["https://app.example.com/"],
        **fields,
    }
    return (await sync_to_async(make_client)(**given))[0]


def _link(email: str, kind: str) -> str:
    mail = claim(OutgoingMail.objects.filter(recipient=email, kind=kind).latest("created_at").pk)
    assert mail is not None
    text = str(rendering.render(mail).body)
    return next(line for line in text.splitlines() if "token=" in line).partition("localhost:8000")[2]


async def link_to(email: str, kind: str) -> str:
    """Return the link in the newest message of this kind, without the issuer."""
    return await sync_to_async(_link)(email, kind)


async def code_of(purpose: str) -> str:
    """Return the code of the newest message of this purpose."""
    row = await EmailToken.objects.filter(purpose=purpose, code_tries__isnull=False).alatest("created_at")
    return email_tokens.code(row)


def _app_of(text: str) -> App:
    found = re.search(r'data-copied="([A-Z2-7]{16,})"', text)
    assert found is not None, text
    return App(found[1])


async def with_app(browser: Browser, email: str) -> tuple[App, list[str]]:
    """Sign in, and set up an app; return it with the recovery codes."""
    await browser.signed_in(email)
    app = _app_of((await browser.press("codes", "start")).text)
    await browser.press("codes", "confirm", code=app.wrong())
    shown = await browser.press("codes", "confirm", code=app.code(-1))
    return app, re.findall(r"<li><code>([^<]+)</code></li>", shown.text)


# ---------------------------------------------------------------- what nobody needs to be signed in for
async def strangers(browser: Browser) -> None:
    """The start page, what is not there, ambiguous cookies, links of no use, messages asked for, forms of elsewhere."""
    name = access_name()
    for path in ("/", "/nope", "/account/nope", "/account/signin", "/account/signup"):
        await browser.get(path)
    await browser.api.get("/account/signin", headers={"Cookie": f"{name}=a; {name}=b"})
    for path in ("/email/verify", "/password/reset", "/account/restore", "/account/invitation", "/oauth/reset"):
        for link in ({}, {"token": "x"}):
            await browser.get(path, **link)
        for typed in ({}, {"token": "x", "new_password": "x", "password": "x"}, {"token": "x", "answer": "not_me"}):
            await browser.post(path, **typed)
    for path in ("/account/forgot", "/account/verify-again"):
        await browser.get(path)
        for email in (*ADDRESSES, "nobody@example.com"):
            await browser.post(path, email=email)
        await browser.post(path, CROSS_SITE, email="nobody@example.com")
    for path in (HOME, f"{HOME}/name"):
        await browser.post(path, CROSS_SITE)
        await browser.api.get(path, headers=CROSS_SITE)
    for mode in ("closed", "invitation"):
        browser.settings.IRONAUTH_SIGN_UP = mode
        await browser.get("/account/signup")
    browser.settings.IRONAUTH_SIGN_UP = "open"


async def authorizing(browser: Browser) -> None:
    """What an application may do wrong; where nothing may be redirected, the person reads what it was."""
    client = await client_of(grants=[kind.value for kind in GrantType])
    asked = request_of(client)
    wrong = [
        {}, {"client_id": "nobody"}, {"client_id": asked["client_id"]}, asked | {"redirect_uri": "https://evil.example"},
        asked | {"request_uri": "urn:ietf:params:oauth:request_uri:x"},
    ]  # fmt: skip
    for params in wrong:
        await browser.get(AUTHORIZE, **params)
    twice = urlencode(asked)
    for query in (f"{twice}&client_id=x", f"{twice}&redirect_uri=x", f"client_id={asked['client_id']}&x={'x' * 8_000}"):
        await browser.api.get(f"{AUTHORIZE}?{query}")
    await browser.api.put(AUTHORIZE)
    await browser.api.get("/oauth/consent")
    await browser.post(AUTHORIZE, x="x" * 8_001)
    out = {"post_logout_redirect_uri": "https://evil.example", "client_id": asked["client_id"]}
    for params in (out, {"x": "x" * 8_001}, {"id_token_hint": "x", "client_id": "x"}):
        await browser.get("/oauth/logout", **params)
    await browser.api.get("/oauth/logout?state=a&state=b")
    await browser.api.get(f"/oauth/logout?{'&'.join(f'a{number}=1' for number in range(1_100))}")
    for path in (
        "consent", "account", "signin", "signin/code", "signin/passkey", "signup", "signin/email", "signin/link",
        "code", "forgot", "reset", "terms", "upstream",
    ):  # fmt: skip
        await browser.post(f"/oauth/{path}", request="x")
        await browser.post(f"/oauth/{path}", CROSS_SITE, request="x")
    for params in ({}, {"user_code": "WDJB-MJHT"}):
        await browser.get("/oauth/device", **params)
        await browser.post("/oauth/device", **params)
    await browser.get("/oauth/upstream/acme")
    await browser.get("/oauth/signin/link", token="x")


# ---------------------------------------------------------------- signing in and up
async def signing_in(browser: Browser) -> None:
    """Passwords, second factors and passkeys, wrong and right, for a client and without one; who may not come in."""
    email = "mia@example.com"
    await person(email)
    for form in ("identifier_first", "together"):
        browser.settings.IRONAUTH_SIGN_IN_FORM = form
        page = await browser.get(AUTHORIZE, **request_of(await client_of()))
        if form == "identifier_first":
            for wrong in ("", "nobody"):
                await browser.send(page, "/oauth/signin", email=wrong)
            page = await browser.send(page, "/oauth/signin", email=email)
        for typed in ({"email": "", "password": ""}, {"email": email, "password": WRONG}):
            await browser.send(page, "/oauth/signin", **typed)
        await browser.send(page, "/oauth/signin/passkey")
        await browser.send(page, "/oauth/signin/passkey", challenge_token="x", credential="{}")
    browser.settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    await browser.signed_in(email, WRONG)
    browser.settings.IRONAUTH_EMAIL_VERIFICATION = "off"
    app, recovery = await with_app(browser, email)
    for kept in (0, 30):
        browser.settings.IRONAUTH_KEEP_DEVICE_DAYS = kept
        step = await browser.signed_in(email)
        await browser.send(step, "/oauth/signin/code", code=app.wrong())
        await browser.send(step, "/oauth/signin/code", code="")
        other = await browser.send(step, "/oauth/signin/code", recovery="1")
        await browser.send(other, "/oauth/signin/code", code=recovery.pop())
    await browser.send(step, "/oauth/signin/code", code=recovery.pop(), keep_device="1")
    await browser.signed_in(email)
    fields = form_to(step, "/oauth/signin/code").fields
    with clock.shifted(1_000):
        await browser.post("/oauth/signin/code", **fields | {"code": "1"})
    await User.objects.filter(email=email).aupdate(must_change_password=True)
    await browser.signed_in(email)
    await User.objects.filter(email=email).aupdate(must_change_password=False)
    await browser.leave()


async def by_code(browser: Browser) -> None:
    """Codes and links by e-mail: asked for, wrong, late, in this browser and in another one."""
    browser.settings.IRONAUTH_SIGN_IN_BY_EMAIL = True
    email = "code@example.com"
    await person(email)
    for client in (None, await client_of()):
        await browser.leave()
        first = await (browser.get(AUTHORIZE, **request_of(client)) if client else browser.get("/account/signin"))
        ask = await browser.send(first, "/oauth/signin/email")
        for typed in ADDRESSES[1:]:
            await browser.send(ask, "/oauth/signin/email", email=typed)
        page = await browser.send(ask, "/oauth/signin/email", email=email)
        right = await code_of("sign_in")
        for typed in ("", "x", f"{(int(right) + 1) % 10**6:06}"):
            await browser.send(page, "/oauth/code", code=typed)
        page = await browser.send(page, "/oauth/code", again="1")
        link = await link_to(email, "sign_in_code")
        shown = await browser.get(link)
        held = dict(browser.api.cookies)
        await browser.leave()
        await browser.get(link)
        browser.api.cookies.update(held)
        await browser.send(shown, "/oauth/signin/link")
        await browser.send(shown, "/oauth/signin/link")
        await browser.get(link)
    browser.settings.IRONAUTH_SIGN_IN_BY_EMAIL = False
    await browser.get("/oauth/signin/link", token="x")
    await browser.leave()


async def signing_up(browser: Browser) -> None:
    """Every rule of every field, terms that changed, a code; an address that is taken."""
    browser.settings.IRONAUTH_TERMS_VERSION = "2026"
    await person("taken@example.com")
    new = {"email": "new@example.com", "password": PASSWORD, "name": PERSON, "terms_version": "2026"}
    for client in (None, await client_of()):
        first = await (browser.get(AUTHORIZE, **request_of(client)) if client else browser.get("/account/signin"))
        page = await browser.send(first, "/oauth/signup")
        for field, values in {
            "email": (*ADDRESSES, "taken@example.com"), "name": NAMES, "password": (*PASSWORDS, "new@example.com!!!"),
            "terms_version": ("", "1"),
        }.items():  # fmt: skip
            for value in values:
                await browser.send(page, "/oauth/signup", **new | {field: value})
    browser.settings.IRONAUTH_TERMS_VERSION, browser.settings.IRONAUTH_EMAIL_VERIFICATION = "", "required"
    page = await browser.send(page, "/oauth/signup", **new)
    for typed in ("", "x"):
        await browser.send(page, "/oauth/code", code=typed)
    page = await browser.send(page, "/oauth/code", again="1")
    await browser.send(page, "/oauth/code", code=await code_of("verify_email"))
    other = new | {"email": "by-link@example.com"}
    await browser.send(
        await browser.send(await browser.get("/account/signin"), "/oauth/signup"), "/oauth/signup", **other
    )
    ask = await browser.send(await browser.get("/account/signin"), "/oauth/verify-again")
    for typed in (*ADDRESSES[1:], other["email"]):
        await browser.send(ask, "/oauth/verify-again", email=typed, send="1")
    opened = await browser.get(await link_to(other["email"], "verify_email"))
    for typed in (*PASSWORDS, PASSWORD, PASSWORD):
        await browser.send(opened, "/oauth/verify", password=typed)
    browser.settings.IRONAUTH_EMAIL_VERIFICATION = "off"
    browser.settings.IRONAUTH_SIGN_UP = "closed"
    await browser.send(page, "/oauth/signup", **new)
    browser.settings.IRONAUTH_SIGN_UP = "open"
    await browser.leave()


# ---------------------------------------------------------------- what messages open
async def messages(browser: Browser) -> None:
    """A link that confirms an address: opened, refused, used, used again."""
    unproved = await person("unproved@example.com", email_verified_at=None)
    await browser.post("/account/verify-again", email=unproved.email)
    link = await link_to(unproved.email, "verify_email")
    page = await browser.get(link)
    token = {"token": form_of(page)["token"]}
    for typed in ({}, {"password": WRONG}, *({"new_password": one, "answer": "choose"} for one in PASSWORDS)):
        await browser.post("/email/verify", **token, **typed)
    for _ in range(2):
        await browser.post("/email/verify", **token, new_password=NEW_PASSWORD, answer="choose")
    await browser.get(link)
    await browser.leave()


async def unproved_accounts(browser: Browser) -> None:
    """Accounts whose address nobody has proved: with second factors, deleted, and made by a stranger."""
    factored = await person("factored@example.com", email_verified_at=None)
    await with_app(browser, factored.email)
    await browser.leave()
    await browser.post("/account/verify-again", email=factored.email)
    page = await browser.get(await link_to(factored.email, "verify_email"))
    await browser.post("/email/verify", token=form_of(page)["token"], password=PASSWORD)
    await browser.signed_in(factored.email)
    for answer in ("not_me", ""):
        gone = await person(f"gone{answer}@example.com", email_verified_at=None)
        await with_app(browser, gone.email)
        await browser.press("delete", "delete", password=PASSWORD)
        page = await browser.get(await link_to(gone.email, "account_deletion"))
        await browser.post("/account/restore", token=form_of(page)["token"], answer=answer)
    await browser.leave()
    stranger = await person("stranger@example.com", email_verified_at=None)
    await browser.post("/account/verify-again", email=stranger.email)
    page = await browser.get(await link_to(stranger.email, "verify_email"))
    await browser.post("/email/verify", token=form_of(page)["token"], answer="not_me")
    await browser.get(await link_to(stranger.email, "account_deletion"))


async def new_passwords(browser: Browser) -> None:
    """A password forgotten on a page of its own, and on the way of a sign-in."""
    known = await person("known@example.com")
    for path, opened in (("/account/forgot", "/password/reset"), ("", "/oauth/reset")):
        if path:
            await browser.post(path, email=known.email)
        else:
            ask = await browser.send(await browser.get("/account/signin"), "/oauth/forgot")
            for typed in ADDRESSES[1:]:
                await browser.send(ask, "/oauth/forgot", email=typed)
            await browser.send(ask, "/oauth/forgot", email=known.email, send="1")
        link = await link_to(known.email, "reset_password")
        page = await browser.get(link)
        fields = {**form_of(page)}
        for typed in (*PASSWORDS, NEW_PASSWORD + opened, NEW_PASSWORD + opened):
            await browser.post(opened, **fields | {"new_password": typed})
        await browser.get(link)
    await browser.leave()


async def invited(browser: Browser) -> None:
    """An invitation, used, used again, declined, and to somebody who has an account by now."""
    known = await person("invited-too@example.com")
    root = await sync_to_async(User.objects.create_superuser)("root@example.com", PASSWORD)
    for email in ("invited@example.com", known.email):
        await sync_to_async(_invite)(root, email)
        link = await link_to(email, "invitation")
        page = await browser.get(link)
        fields = form_of(page) if email != known.email else {"token": "x"}
        browser.settings.IRONAUTH_TERMS_VERSION = "2026"
        await browser.get(link)
        for field, values in {"name": NAMES, "password": PASSWORDS, "terms_version": ("", "1")}.items():
            for value in values:
                typed = {"password": NEW_PASSWORD, "terms_version": "2026", field: value}
                await browser.post("/account/invitation", **fields | typed)
        browser.settings.IRONAUTH_TERMS_VERSION = ""
        await browser.post("/account/invitation", **fields | {"password": NEW_PASSWORD})
        await browser.get(link)
    await sync_to_async(_invite)(root, "declining@example.com")
    fields = form_of(await browser.get(await link_to("declining@example.com", "invitation")))
    await browser.post("/account/invitation", **fields | {"answer": "decline"})
    await browser.leave()


def form_of(page: httpx.Response) -> dict[str, str]:
    """Return the fields of the page's first form, whatever its address."""
    fields = {}
    for field in re.findall(r"<input[^>]*>", page.text):
        name, value = (re.search(rf'\s{key}="([^"]*)"', field) for key in ("name", "value"))
        if name is not None and value is not None:
            fields[name[1]] = unescape(value[1])
    return fields


def _invite(root: User, email: str) -> None:
    with transaction.atomic():
        invitations.invite(actor_id=root.pk, values={"email": email, "name": "", "language": "", "roles": []})


# ---------------------------------------------------------------- one's own account
async def account(browser: Browser) -> None:
    """Every row with everything in it, every act with everything it refuses, and what comes of those that are done."""
    email = "owner@example.com"
    user = await person(email)
    await browser.signed_in(email)
    await browser.get("/account/accounts")
    await _rows(browser, user)
    await _acts(browser, user)
    app, _ = await with_app(browser, email)
    await browser.press("codes", "start")
    device = Authenticator()
    for name in ("ключ", ""):  # the second time it is registered already
        options = json.loads(
            unescape(_attribute((await browser.press("passkeys", "new", name=name)).text, "data-make-passkey"))
        )
        answer = {
            "challenge_token": options["challenge_token"],
            "credential": json.dumps(device.create(options["publicKey"])),
        }
        await browser.press("passkeys", "add", name=name, **answer)
    await Consent.objects.acreate(user=user, client=await client_of(), scope="openid profile email roles account")
    browser.settings.IRONAUTH_KEEP_DEVICE_DAYS = 30
    await _rows(browser, user)
    with clock.shifted(RECENT_S + 1):
        await _rows(browser, user)
        await _acts(browser, user, proof_code="000000")
        await _acts(browser, user)
        await browser.press("data", "export", proof_code=app.code())
    await browser.press("recovery", "new", password=PASSWORD)
    await browser.press("sessions", "end_others")
    consent = await Consent.objects.filter(user=user).afirst()
    assert consent is not None
    await browser.press("applications", "remove", consent.client_id)
    key = await Passkey.objects.aget(user=user)
    await browser.get(f"{HOME}/passkeys/{key.pk}")
    await browser.press("passkeys", "rename", key.pk, name="брелок")
    await browser.press("passkeys", "rename", key.pk, name=NAMES[0])
    await browser.press("passkeys", "remove", key.pk)
    await browser.press("codes", "remove", password=PASSWORD)
    await browser.press("name", "change", name="Ада")
    await browser.press("language", "change", language="de")
    await browser.press("email", "change", new_email="other@example.com", password=PASSWORD)
    page = await browser.get(await link_to("other@example.com", "change_email"))
    for typed in ({}, {"password": WRONG}, {"password": PASSWORD}):
        await browser.post("/email/verify", **{"token": form_of(page)["token"], **typed})
    await browser.signed_in("other@example.com")
    await browser.press("password", "change", current_password=PASSWORD, new_password=NEW_PASSWORD)
    for days in (0, 1, 30):
        browser.settings.IRONAUTH_DELETION_GRACE_DAYS = days
        await browser.get(f"{HOME}/delete")
    await browser.press("delete", "delete", password=NEW_PASSWORD)
    link = await link_to("other@example.com", "account_deletion")
    page = await browser.get(link)
    for _ in range(2):
        await browser.post("/account/restore", token=form_of(page)["token"])
    await _without_password(browser)
    await browser.leave()


def _attribute(text: str, name: str) -> str:
    found = re.search(rf'{name}="([^"]+)"', text)
    assert found is not None, text
    return found[1]


async def _rows(browser: Browser, user: User) -> None:
    for slug, row in ROWS.items():
        await browser.get(f"{HOME}/{slug}")
        await browser.get(f"{HOME}/{slug}/{user.pk}")
        for act in row.acts:
            await browser.get(f"{HOME}/{slug}", done=act)
    await browser.get(f"{HOME}/nothing")
    await browser.post(f"{HOME}/name", SAME_ORIGIN, form="x", act="change")
    await browser.press("name", "nothing")


async def _acts(browser: Browser, user: User, **proof: str) -> None:
    """Send what each act refuses."""
    values = {
        "given_name": NAMES, "family_name": NAMES, "preferred_username": NAMES, "zoneinfo": ("Mars/Base",),
        "new_email": ADDRESSES, "name": NAMES, "new_password": (*PASSWORDS, f"{user.email}!!!"),
        "password": ("", WRONG),
        "current_password": ("", WRONG), "language": ("xx",), "code": ("", "000000"), "email_code": ("", "000000"),
        "credential": ("{}",), "challenge_token": ("x",), "provider": ("x",), **dict.fromkeys(PROOFS, ("x",)),
    }  # fmt: skip
    right = {"current_password": PASSWORD, "new_password": NEW_PASSWORD, "new_email": "z@example.com"}
    for slug, row in ROWS.items():
        for name, act in row.acts.items():
            item = user.pk if act.item else ""
            if not act.fields and act.method in ("POST", "GET") and not proof:
                await browser.press(slug, name, item, **proof)
            for field in act.fields:
                for value in values[field]:
                    good = {other: right.get(other, "") for other in act.fields}
                    await browser.press(slug, name, item, **good | {field: value} | proof)
            if act.item:
                await browser.press(slug, name, item, **proof)


async def _without_password(browser: Browser) -> None:
    """Somebody who signs in by a code alone proves who they are by another one."""
    browser.settings.IRONAUTH_SIGN_IN_BY_EMAIL = True
    user = await person("nopassword@example.com", password=None)
    await browser.leave()
    page = await browser.send(await browser.get("/account/signin"), "/oauth/signin/email")
    page = await browser.send(page, "/oauth/signin/email", email=user.email)
    await browser.send(page, "/oauth/code", code=await code_of("sign_in"))
    await _rows(browser, user)
    with clock.shifted(RECENT_S + 1):
        await _rows(browser, user)
        for slug in ("data", "email", "delete"):
            act = next(iter(ROWS[slug].acts))
            await browser.press(slug, act, mail_code="1")
            await browser.press(slug, act, email_code="000000", proof_email_code="000000")
            await browser.press(slug, act)
    browser.settings.IRONAUTH_SIGN_IN_BY_EMAIL = False


# ---------------------------------------------------------------- applications
async def applications(browser: Browser) -> None:
    """Consent, several accounts, devices, signing out; an answer by form, and one on a page that goes on."""
    await person("one@example.com")
    await person("two@example.com")
    asked = {"scope": "openid profile email roles account offline_access"}
    client = await client_of(
        grants=[kind.value for kind in GrantType], redirect_uris=[REDIRECT_URI, "http://[::1]/back"]
    )
    await browser.leave()
    page = await browser.get(AUTHORIZE, **request_of(client, **asked))
    page = await browser.send(page, "/oauth/signin", email="one@example.com", password=PASSWORD)
    await browser.send(page, "/oauth/consent", decision="nothing")
    choice = await browser.get(AUTHORIZE, **request_of(client, **asked, prompt="select_account"))
    other = await browser.send(choice, "/oauth/account", other="1")
    await browser.send(other, "/oauth/signin", email="two@example.com", password=PASSWORD)
    choice = await browser.get(AUTHORIZE, **request_of(client, **asked, prompt="select_account"))
    await browser.send(choice, "/oauth/account", account="x")
    here = await browser.get("/account/accounts")
    await browser.send(here, "/account/accounts", account="x")
    page = await browser.get(AUTHORIZE, **request_of(client, **asked, response_mode="form_post"))
    await browser.send(page, "/oauth/consent", decision="switch")
    await browser.send(page, "/oauth/consent", decision="allow")
    nameless = await browser.get(AUTHORIZE, **request_of(client, redirect_uri="http://[::1]/back", prompt="consent"))
    await browser.send(nameless, "/oauth/consent", decision="allow")
    for decision in ("deny", "allow"):
        begun = await browser.post("/oauth/device_authorization", client_id=str(client.pk), scope="openid profile")
        if begun.status_code != 200:  # a client with a secret
            television = await client_of(auth_method="none", grants=[GrantType.DEVICE_CODE.value], redirect_uris=[])
            begun = await browser.post("/oauth/device_authorization", client_id=str(television.pk), scope="openid")
        code = begun.json()["user_code"]
        browser.typed.add(code)
        await browser.get("/oauth/device", user_code=code)
        page = await browser.post("/oauth/device", user_code=code)
        await browser.send(page, "/oauth/consent", decision=decision)
    page = await browser.get("/account/accounts")
    await browser.post("/account/accounts", SAME_ORIGIN, **forms(page)[0].fields, account="x")
    await browser.get("/oauth/logout", client_id=str(client.pk))
    page = await browser.get("/oauth/logout")
    page = await browser.send(page, "/oauth/logout")
    for form in forms(page):
        pressed = {name: values[0] for name, values in form.buttons.items()}
        await browser.post(form.action, SAME_ORIGIN, **form.fields, account=pressed["account"])
        await browser.post(form.action, SAME_ORIGIN, **form.fields, sign_out=pressed["sign_out"])
    await browser.post("/oauth/account", SAME_ORIGIN, account="x", confirmation="x")
    await browser.get("/oauth/logout")
    await browser.leave()


# ---------------------------------------------------------------- support
async def support(browser: Browser) -> None:
    """Staff who are signed in as a person look at the pages, and may change nothing."""
    browser.settings.IRONAUTH_SIGN_IN_AS = True
    user = await person("helped@example.com")
    opened = await sync_to_async(_acting)(user)
    pair = token_pair(opened, await key_store().signing(), token_cache().mark())
    await browser.leave()
    browser.api.cookies.set(access_name(), pair.access_token)
    await _rows(browser, user)
    await browser.get(HOME)
    await browser.press("name", "change", name="Ада")
    await browser.leave()


def _acting(user: User) -> OpenedSession:
    helper = User.objects.create_superuser("helper@example.com", PASSWORD, name=PERSON)
    context, until = ClientContext("192.0.2.7", AGENT, "", ""), clock.now() + timedelta(minutes=30)
    with transaction.atomic():
        return acting.begin(actor_id=helper.pk, user_id=user.pk, reason="ticket 7", context=context, until=until)


async def by_passkey(browser: Browser) -> None:
    """A passkey is the second factor, alone and beside an app; its answer is none."""
    user = await person("passkey@example.com")
    await browser.signed_in(user.email)
    options = json.loads(unescape(_attribute((await browser.press("passkeys", "new")).text, "data-make-passkey")))
    made = json.dumps(Authenticator().create(options["publicKey"]))
    await browser.press("passkeys", "add", name="", challenge_token=options["challenge_token"], credential=made)
    step = await browser.signed_in(user.email)
    await browser.send(step, "/oauth/signin/code", challenge_token="x", credential="{}")
    await browser.leave()


# ---------------------------------------------------------------- too often
async def too_often(browser: Browser) -> None:
    """Passwords, second factors, messages and codes of devices, each once more than is allowed."""
    email = "often@example.com"
    user = await person(email)
    await browser.signed_in(email)
    page = await browser.get("/account/signin")
    app, _ = await with_app(browser, email)
    step = await browser.signed_in(email)
    browser.settings.IRONAUTH_THROTTLE = True
    for limit in ("SIGNIN_FAILURES", "MAILS", "MAILS_TO_ONE", "PASSKEYS", "BAD_EMAIL_TOKENS", "SIGNUPS"):
        setattr(browser.settings, f"IRONAUTH_THROTTLE_{limit}", 1)
    for _ in range(3):
        await browser.post("/account/forgot", email=email)
        await browser.post("/account/verify-again", email=email)
        await browser.post("/oauth/device", user_code="WDJB-MJHT")
        await browser.get("/password/reset", token="x")
        await browser.send(page, "/oauth/signin/passkey", challenge_token="x", credential="{}")
        await browser.send(page, "/oauth/signup", email="w@example.com", password=PASSWORD, name="")
    for _ in range(12):
        await browser.send(step, "/oauth/signin/code", code=app.wrong())
        await browser.send(page, "/oauth/signin", email="z@example.com", password=WRONG)
    browser.settings.IRONAUTH_THROTTLE = False
    await browser.signed_in((await person("again@example.com")).email)
    browser.settings.IRONAUTH_THROTTLE = True
    for _ in range(12):
        await browser.press("email", "change", new_email="v@example.com", password=WRONG)
    for _ in range(3):
        await browser.press("email", "change", new_email="v@example.com", password=PASSWORD)
    browser.settings.IRONAUTH_THROTTLE = False
    assert any("429" in where for where in browser.readings.places), user
    await browser.leave()


# ---------------------------------------------------------------- other providers
async def other_providers(browser: Browser) -> None:
    """A provider that refuses, that is away; people who make an account by it, or connect the one that they have."""
    provider = browser.provider
    browser.settings.IRONAUTH_TERMS_VERSION = "2026"
    for changes in ({"code": None, "error": "access_denied"}, {"state": "x"}, {"iss": "https://evil.example"}):
        await _back(browser, await _asked(browser), **changes)
    page = await _back(browser, await _asked(browser))
    for version in ("", "1"):
        page = await browser.send(page, "/oauth/terms", terms_version=version)
    browser.settings.IRONAUTH_TERMS_VERSION = ""
    for claims in ({"sub": "subject-2", "email": "has@example.com"}, {"sub": "subject-3", "email": None}):
        await browser.leave()
        if claims["email"]:
            await person(claims["email"])
        provider.claims = claims
        await _back(browser, await _asked(browser, await browser.get(AUTHORIZE, **request_of(await client_of()))))
        page = await _back(browser, await _asked(browser))
        if claims["email"]:
            await browser.send(page, "/oauth/signin", email=claims["email"], password=PASSWORD)
            identity = await Identity.objects.aget(user__email=claims["email"])
            await browser.get(f"{HOME}/identities")
            await browser.get(f"{HOME}/identities/{identity.pk}")
            await browser.press("identities", "remove", identity.pk)
            await browser.get(f"{HOME}/identities")
            leads = await browser.press("identities", "connect", provider="acme")
            asked = _noted(browser, leads)
            await browser.press("sessions", "end_others")
            await Session.objects.filter(user__email=claims["email"]).adelete()
            await _back(browser, asked)
    provider.document = {"issuer": "https://evil.example"}
    discovery.forget()
    await browser.leave()
    await browser.send(await browser.get("/account/signin"), "/oauth/upstream", provider="acme")
    await browser.get("/account/signin", provider="acme")


async def _asked(browser: Browser, page: httpx.Response | None = None) -> dict[str, str]:
    """Press the provider's button; return what the provider is asked, which it takes note of."""
    return _noted(
        browser, await browser.send(page or await browser.get("/account/signin"), "/oauth/upstream", provider="acme")
    )


def _noted(browser: Browser, leads: httpx.Response) -> dict[str, str]:
    """Return what a page that goes on to the provider asks it, which the provider takes note of."""
    found = re.search(r'<a href="([^"]+)">⟦', leads.text)
    assert found is not None, leads.text
    asked = {name: values[0] for name, values in parse_qs(urlsplit(unescape(found[1])).query).items()}
    browser.provider.nonce, browser.provider.challenge = asked["nonce"], asked["code_challenge"]
    return asked


async def _back(browser: Browser, asked: dict[str, str], **changes: str | None) -> httpx.Response:
    return await back(browser.api, browser.provider, asked, "acme", **changes)


# ---------------------------------------------------------------- what all of that has sent
async def mails(browser: Browser) -> None:
    """A sign-in from somewhere new, and every message that waits after all these walks, as their facts were written."""
    browser.settings.IRONAUTH_NEW_DEVICE_MAIL = True
    email = (await person("moved@example.com")).email
    for agent in (AGENT, "Mozilla/5.0 (X11; Linux)", "curl/8.9"):
        browser.api.headers["User-Agent"] = agent
        await browser.signed_in(email)
    browser.api.headers["User-Agent"] = AGENT
    await browser.leave()
    kinds = await sync_to_async(_read_mails)(browser.readings)
    assert len(kinds) > 15, kinds
    assert {Kind.NEW_DEVICE, Kind.ACCOUNT_DELETION} <= kinds


def _read_mails(readings: Readings) -> set[str]:
    """Read every message, and return their kinds."""
    kinds = set()
    for row in OutgoingMail.objects.exclude(recipient="").select_related("token"):
        facts = {**row.facts, "language": READER}
        claimed = Claimed(row.pk, row.kind, row.recipient, 1, row.created_at, facts, row.token)
        message = rendering.render(claimed)
        data = [*NAMED, "Linux", *filter(None, (claimed.token, claimed.code))]
        readings.text(f"subject of {row.kind}", str(message.subject), *data)
        readings.text(f"text of {row.kind}", str(message.body), *data)
        readings.page(f"HTML of {row.kind}", str(message.alternatives[0][0]), *data)
        kinds.add(row.kind)
    return kinds


WALKS: Final[tuple[Walk, ...]] = (
    strangers, authorizing, signing_in, by_code, signing_up, messages, unproved_accounts, new_passwords,
    invited, account, applications,
    other_providers, support, by_passkey, too_often, mails,
)  # fmt: skip
