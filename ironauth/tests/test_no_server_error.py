"""No request ends in a server error, whatever is sent to whichever path, signed in or not (OWASP API8).

The paths come from the URL configuration and the fields from the API's description, so that what is added tomorrow
is swept too.
"""

import secrets
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import httpx
import msgspec
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Group
from django.db import transaction
from django.test import Client
from django.urls import resolve
from pytest_django import Settings

from accounts.outbox import tokens as email_tokens
from accounts.outbox.models import EmailToken
from accounts.pages import meter
from accounts.pages.acts import ROWS
from accounts.pages.proving import PROOFS
from accounts.users.models import User
from accounts.users.services import Authenticated
from conftest import PASSWORD, ServeProcess
from ironauth.asgi import application
from ironauth.config import cookies as cookie_names
from ironauth.infrastructure.api.parsers import FormParser
from ironauth.infrastructure.core import constant_time
from ironauth.infrastructure.http import cookies, second_clicks
from ironauth.tests import sweep
from ironauth.tests.canary_hooks import watched
from ironauth.tests.cost_hooks import ALL_CASES
from ironauth.tests.sweep import CONTENT_TYPES, FORM, HOSTILE, JSON, METHODS, MULTIPART, WITH_BODY, Body
from tokens.access.credentials import access_name
from tokens.clients import assertion as client_assertion
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.state import AccountState, CodeFor
from tokens.oauth.tests.flow import basic
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import request_of
from tokens.oauth.token import exchange as token_exchange
from tokens.protocol import GrantType
from tokens.sign_in import mfa_token

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.live]

Headers = dict[str, str]
Fields = dict[str, str]
#: Parameters of addresses that only browsers open, which the API's description leaves out.
PAGE_QUERY: Final = {
    "/oauth/authorize": [
        "client_id", "redirect_uri", "response_type", "scope", "state", "nonce", "prompt", "max_age", "login_hint",
        "id_token_hint", "request", "request_uri", "response_mode", "code_challenge", "code_challenge_method",
        "dpop_jkt", "acr_values", "resource", "authorization_details", "claims", "display", "ui_locales",
    ],
    "/oauth/logout": ["id_token_hint", "client_id", "post_logout_redirect_uri", "state", "confirmation"],
    "/oauth/device": ["user_code"],
    "/email/verify": ["token"],
    "/password/reset": ["token"],
    "/account/restore": ["token"],
    "/account/invitation": ["token"],
    "/oauth/continue": ["token"],
    "/oauth/verify": ["token"],
}  # fmt: skip
#: Fields of the forms of an account's rows.
OF_ROWS: Final = sorted(
    {*PROOFS, *(field for row in ROWS.values() for act in row.acts.values() for field in act.fields)}
)
_ORGANIZATION: Final = "/account/security/organizations/01a20000-0000-7000-8000-000000000001"
#: Fields of forms that only browsers send.
PAGE_FORMS: Final = {
    "/oauth/consent": ["request", "decision"],
    "/oauth/account": ["request", "confirmation", "account", "sign_out", "other"],
    "/oauth/signin": ["request", "email", "password", "other"],
    "/oauth/signin/code": ["request", "code", "challenge_token", "credential", "recovery", "app", "keep_device"],
    "/oauth/signin/passkey": ["request", "email", "challenge_token", "credential"],
    "/oauth/device": ["user_code"],
    "/oauth/account/session": [],
    "/account/security": ["form", "act"],
    "/account/accounts": ["next", "confirmation", "account", "sign_out", "sign_out_all", "other"],
    "/account/security/password": ["form", "act", meter.FIELD, "mail_code", *OF_ROWS],
    "/account/security/organizations": ["form", "act", "name", "item", *OF_ROWS],
    _ORGANIZATION: ["form", "act", "name", "email", "role", "item", *OF_ROWS],
    f"{_ORGANIZATION}/delete": ["form", "act", *OF_ROWS],
    f"{_ORGANIZATION}/members/01a20000-0000-7000-8000-000000000002": ["form", "act", "role", *OF_ROWS],
    "/account/forgot": ["email"],
    "/account/verify-again": ["email"],
    "/account/restore": ["token", "answer"],
    "/email/verify": ["token", "password", "new_password", "code", "recovery_code", "answer", meter.FIELD],
    "/password/reset": ["token", "new_password", meter.FIELD],
    "/account/invitation": ["token", "name", "password", "terms_version", "answer", meter.FIELD],
    "/oauth/terms": ["request", "terms_version"],
    "/oauth/signup": ["request", "email", "name", "password", "terms_version", meter.FIELD],
    "/oauth/signin/email": ["request", "email"],
    "/oauth/signin/link": ["request", "token"],
    "/oauth/code": ["request", "code", "again"],
    "/oauth/forgot": ["request", "email", "send"],
    "/oauth/reset": ["request", "token", "new_password", meter.FIELD],
    "/oauth/verify": ["request", "token", "password", "new_password", "code", "recovery_code", "answer", meter.FIELD],
    "/oauth/verify-again": ["request", "email", "send"],
    "/oauth/upstream": ["request", "provider"],
    "/oauth/upstream/acme": ["code", "state", "iss", "error", "error_description"],
    "/oauth/upstream/acme/logout": ["logout_token"],
    **{path: PAGE_QUERY[path] for path in ("/oauth/authorize", "/oauth/logout")},
}
#: Forms of those who are signed in.
SIGNED_IN: Final = ("/account/security", "/account/accounts")
#: Forms that read more of how far somebody has come.
LATER: Final = ("/oauth/code", "/oauth/signin/code", "/oauth/signin/link", "/oauth/signup", "/oauth/terms")
#: Parameters of the admin's lists, filters and look-ups.
ADMIN_QUERY: Final = [
    "_changelist_filters", "_popup", "_to_field", "all", "app_label", "content_type", "e", "event", "field_name", "id",
    "ip", "is_active__exact", "model_name", "next", "o", "p", "q", "term", "user__id__exact",
]  # fmt: skip
#: What only says who the client is, and is sent in the header where the rest of a form is looked at.
OF_CLIENT: Final = frozenset({"client_id", "client_secret", "client_assertion", "client_assertion_type"})
COOKIES: Final = tuple(cookies.name_of(cookie) for cookie in cookie_names.REGISTRY)
CSRF: Final = "c" * 32
#: Parameters of paths; most are ids.
VALUES: Final = (
    "client_id", "content_type_id", "family", "form", "id", "object_id", "passkey_id", "role", "session_id", "user_id",
    "device_id", "identity_id", "invitation_id", "provider_id", "item", "section", "slug", "act", "kid",
    "message_id", "token_id", "resource_id", "type_id", "organization_id", "place",
)  # fmt: skip
#: A page of staff costs ten times what a call of the API does: what its one reader of bodies, Django's, may stumble on.
ADMIN_BODIES: Final = [
    *(body for body in sweep.bodies(FORM, read=True) if body.name in ("malformed", "nested", "duplicate members")),
    *(body for body in sweep.bodies(MULTIPART, read=True) if body.name == "malformed"),
    *(body for body in sweep.bodies(JSON, read=True) if body.name == "nested"),
]
#: One in as many ways of breaking a header is sent to a path.
ONE_IN: Final = 1 if ALL_CASES else 4
#: Values that the admin's lists may take for something of theirs.
ADMIN_VALUES: Final = ("NUL", "beyond ASCII", "huge number", "long text", "date of no year", "nested lists", "two dots")
LISTS: Final = [f"/admin/{one._meta.app_label}/{one._meta.model_name}/" for one in admin.site._registry]


class Sweeper:
    """Sends requests as four kinds of callers, and notes what fails."""

    def __init__(self, api: httpx.AsyncClient) -> None:
        self.api = api
        self.failures: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self.values: dict[str, str] = {}
        self.client: Headers = {}
        self.asked: Fields = {}
        self.browser: Headers = {}
        self.pair: dict[str, Any] = {}

    async def open(self) -> None:
        """Make everybody who calls, and what paths name."""
        await sync_to_async(self._make)()
        await self.sign_in()

    def _make(self) -> None:
        mia = User.objects.create_user("mia@example.com", PASSWORD)
        given = {"grants": [kind.value for kind in GrantType], "resource_server": True, "dpop": "optional"}
        client, secret = make_client(scopes=["openid", "profile", "email", "account", "offline_access"], **given)
        self.client = basic(str(client.pk), secret)
        self.asked = request_of(client)
        Group.objects.create(name="editors")
        self.values = {
            **dict.fromkeys(VALUES, str(mia.pk)),
            "form": "csv",
            "client_id": str(client.pk),
            "role": "editors",
            "content_type_id": "1",
            "family": "ed25519",
            "slug": "acme",
            "act": "send-reset",
            "section": "password",
        }

    async def sign_in(self) -> None:
        """Sign a new superuser in: the one before may have signed out, or deleted the account."""
        email = f"root-{secrets.token_hex(6)}@example.com"
        await sync_to_async(User.objects.create_superuser)(email, PASSWORD)
        answer = await self.api.post("/api/v1/access/signin", json={"email": email, "password": PASSWORD})
        assert answer.status_code == 200, answer.text
        self.pair = answer.json()

    def callers(self) -> dict[str, Headers]:
        """Return the headers of each kind of caller."""
        token = self.pair["access_token"]
        return {
            "nobody": {},
            "bearer": {"authorization": f"Bearer {token}"},
            "cookie": {"cookie": f"{access_name()}={token}", "sec-fetch-site": "same-origin"},
            "client": self.client,
        }

    def filled(self, template: str) -> str:
        """Return a path of the API's description with the values of this sweep."""
        return template.replace("{", "%(").replace("}", ")s") % self.values

    async def send(self, method: str, path: str, what: str, **request: Any) -> int:
        """Send one request and note the status, and a failure with what was sent."""
        answer = await sweep.ask(application, method, path, **request)
        self.statuses[answer.status] += 1
        if answer.status >= 500:
            self.failures[f"{answer.status} {method} {path} {what}"] += 1
        return answer.status

    async def send_as(self, caller: str, method: str, path: str, what: str, body: Body | None = None) -> int:
        """Send as one kind of caller; who has signed out by it is signed in again."""
        status = await self.send(method, path, f"{caller} {what}", headers=self.callers()[caller], body=body)
        if status < 400 and method in WITH_BODY and caller in ("bearer", "cookie"):
            await self.sign_in()
        return status

    def done(self, least: int) -> None:
        """Fail with what failed, and for a sweep that has sent next to nothing."""
        assert not self.failures, "\n".join(f"{times} x {what}" for what, times in self.failures.most_common(40))
        assert sum(self.statuses.values()) >= least, self.statuses
        assert self.statuses[200], self.statuses


@pytest.fixture
async def sweeper(api: httpx.AsyncClient, signing_key: str, monkeypatch: pytest.MonkeyPatch) -> Sweeper:
    """Everybody is there, and signed in; no answer waits for a moment to be given at, which was seven eighths of it."""
    monkeypatch.setattr(constant_time, "STEP_S", 0.001)
    monkeypatch.setattr(second_clicks, "_WAITS_S", (0.0,))
    for value in HOSTILE.values():  # a name and a password at once: no secret to be searched for
        watched.fields({"name": value}, codes=False)
    made = Sweeper(api)
    await made.open()
    return made


async def test_no_body_makes_a_server_error(sweeper: Sweeper) -> None:
    """Every path by method by content type by {none, empty, malformed, nested, duplicate}, signed in or not: no 5xx."""
    for path in (one for one in sweep.paths(sweeper.values) if not one.is_page_of_staff):
        for method in METHODS:
            read = method in WITH_BODY
            known = ("client", "bearer") if path.path.startswith("/oauth/") else ("bearer", "cookie")
            for caller in ("nobody", *known[: 2 if read else 1]):
                for content_type in CONTENT_TYPES:
                    for body in sweep.bodies(content_type, read=read):
                        status = await sweeper.send_as(caller, method, path.path, f"{content_type}: {body.name}", body)
                    if status == 405 and caller != "nobody":  # no handler, hence no reader of the other types
                        break
    sweeper.done(20_000)


@pytest.mark.storage
async def test_no_field_makes_a_server_error(sweeper: Sweeper) -> None:
    """Each field of each body, nested, too long, of another type or a broken token, makes no server error."""
    for operation, (names, _) in sweep.operations().items():
        method, _, path = operation.partition(" ")
        if names and not path.startswith("/oauth/"):
            for body in sweep.json_fields(names):
                await sweeper.send_as("bearer", method, sweeper.filled(path), body.name, body)
    for path, caller, names, fixed in client_forms():
        for body in sweep.form_fields(names, fixed):
            await sweeper.send_as(caller, "POST", path, f"{fixed} {body.name}", body)
    sweeper.done(2_000)


@pytest.mark.storage
async def test_no_field_of_a_page_in_its_browser_makes_a_server_error(sweeper: Sweeper, settings: Settings) -> None:
    """The same for the forms of pages that this browser was shown: what they ask for is read, not refused unread."""
    settings.IRONAUTH_SIGN_UP, settings.IRONAUTH_SIGN_IN_BY_EMAIL = "open", True
    browser = authorization_state.new_browser()
    headers = {"cookie": f"{authorization_state.cookie_name()}={browser}", "sec-fetch-site": "same-origin"}
    states = await sync_to_async(page_states)()
    for what, state in states.items():
        fixed = {"request": authorization_state.sign(state, browser)}
        for path, names in PAGE_FORMS.items():
            if path in PAGE_QUERY or not path.startswith("/oauth/") or "request" not in names:
                continue
            if what == "begun" or path in LATER:
                typed = dict(fixed)
                for body in sweep.form_fields(names, typed):
                    await sweeper.send("POST", path, f"{what} {body.name}", headers=headers, body=body)
                    if path == "/oauth/reset":  # the bodies that follow have this one: an answer may have used the last
                        typed["token"] = await sync_to_async(reset_token)()
    sweeper.done(1_500)


def page_states() -> dict[str, AccountState]:
    """Return how far somebody may have come: at the start, at a code, at the second factor."""
    begun = authorization_state.begin_account("/account/security")
    mia = User.objects.get(email="mia@example.com")
    step = mfa_token.mint(Authenticated(mia.pk, mia.session_epoch, ("totp", "passkey")))
    coded = {"email": mia.email, "code_id": mia.pk}
    return {
        "begun": begun,
        **{f"coded for {one}": msgspec.structs.replace(begun, code_for=one, **coded) for one in CodeFor},
        "at the second factor": msgspec.structs.replace(begun, mfa_token=step, methods=("totp", "passkey")),
        "linking": msgspec.structs.replace(begun, upstream_id=mia.pk, upstream="Acme"),
    }


def reset_token() -> str:
    """Return what a new message for a new password would bring."""
    mia = User.objects.get(email="mia@example.com")
    with transaction.atomic():
        token_id = email_tokens.issue(purpose=email_tokens.Purpose.RESET_PASSWORD, user_id=mia.pk)
    return email_tokens.text(EmailToken.objects.get(pk=token_id))


def client_forms() -> Iterator[tuple[str, str, list[str], Fields]]:
    """Yield the forms that clients and browsers send: path, caller, names of the fields, and values to leave alone."""
    for operation, (names, _) in sweep.operations().items():
        path = operation.partition(" ")[2]
        own = [name for name in names if name not in OF_CLIENT]
        if not own or not path.startswith("/oauth/"):
            continue
        typed = {"subject_token_type": token_exchange.ACCESS_TOKEN}
        kinds = [{"grant_type": kind.value, **typed} for kind in GrantType] if path == "/oauth/token" else [{}]
        for fixed in kinds:
            yield path, "client", own, fixed
        yield path, "nobody", ["client_assertion"], {**kinds[0], "client_assertion_type": client_assertion.TYPE}
    for path, names in PAGE_FORMS.items():
        # Who is not signed in gets no form of an account read: test_no_body_makes_a_server_error asks as both.
        yield path, "cookie" if path.startswith(SIGNED_IN) else "nobody", names, {}


def test_every_form_of_a_page_is_swept() -> None:
    """Whatever view reads forms alone has its fields above or, where clients call it, in the API's description."""
    described = {operation.partition(" ")[2] for operation in sweep.operations()}
    paths = [*PAGE_FORMS, *(path for path in described if path.startswith("/oauth/") and "{" not in path)]
    swept = {resolve(path).func.cls for path in paths}  # type: ignore[attr-defined] # of REST framework's views
    read = {view for view in sweep.views() if hasattr(view, "post") and list(view.parser_classes) == [FormParser]}
    assert len(read) > 30
    assert not {view.__name__ for view in read - swept}


async def test_no_head_makes_a_server_error(sweeper: Sweeper) -> None:
    """Each header and cookie that is read before anybody is known, broken in every way, makes no server error.

    A few readers read them for all paths: a path gets each header with a quarter of the ways, and its neighbours the
    others.
    """
    swept = [one for one in sweep.paths(sweeper.values) if not one.is_page_of_staff or one.path == "/admin/"]
    for turn, path in enumerate(swept):
        of_client = path.path.startswith("/oauth/")
        for way, (label, value) in enumerate(HOSTILE.items(), turn):
            for at, (name, headers) in enumerate(sweep.credentials(value, COOKIES), way):
                if at % ONE_IN == 0:
                    await sweeper.send("GET", path.path, f"{name}: {label}", headers=headers)
            if of_client:
                body = Body("", FORM, b"grant_type=client_credentials&token=a")
                headers = {**sweeper.client, "dpop": value}
                await sweeper.send("POST", path.path, f"DPoP: {label}", headers=headers, body=body)
    sweeper.done(3_000)


@pytest.mark.storage
async def test_no_query_makes_a_server_error(sweeper: Sweeper) -> None:
    """Each parameter of each address, broken in every way, alone and with all others, makes no server error."""
    asked: dict[str, tuple[list[str], Fields]] = {path: (names, {}) for path, names in PAGE_QUERY.items()}
    asked["/oauth/authorize"] = (PAGE_QUERY["/oauth/authorize"], sweeper.asked)
    for operation, (_, names) in sweep.operations().items():
        asked.setdefault(sweeper.filled(operation.partition(" ")[2]), (names, {}))
    for path, (names, fixed) in asked.items():
        for label, value in HOSTILE.items():
            for some in (names, *([name] for name in names)):
                query = sweep.query(some, value, fixed)
                headers = sweeper.callers()["bearer"]
                await sweeper.send("GET", path, f"{some}: {label}", headers=headers, query_string=query)
    sweeper.done(1_000)


async def test_no_page_of_staff_makes_a_server_error(sweeper: Sweeper) -> None:
    """Every page of the admin by method by {none, empty, malformed, nested, duplicate}, signed in or not: no 5xx."""
    browser = await sync_to_async(admin_session)()
    for path in (one for one in sweep.paths(sweeper.values) if one.is_page_of_staff):
        where = await sync_to_async(object_page)(path)
        for method in METHODS:
            await sweeper.send(method, where, "staff", headers=browser)
        for body in ADMIN_BODIES:
            await sweeper.send("POST", where, f"{body.content_type} {body.name}", headers=browser, body=body)
        for method in ("GET", "POST"):
            await sweeper.send(method, where, "nobody", body=Body("", FORM, b"a=1&a=2"))
        if await sweeper.send("GET", LISTS[0], "", headers=browser) != 200:  # signed out, or deleted
            browser = await sync_to_async(admin_session)()
    for at in (*LISTS, "/admin/autocomplete/", "/admin/login/", "/admin/confirm/"):
        for label in ADMIN_VALUES:
            query = sweep.query(ADMIN_QUERY, HOSTILE[label])
            await sweeper.send("GET", at, f"query: {label}", headers=browser, query_string=query)
    sweeper.done(1_000)


def object_page(path: sweep.Path) -> str:
    """Return the path with the first object there is of its model, where it is a page of one."""
    for model in admin.site._registry:
        page_of = f"admin/{model._meta.app_label}/{model._meta.model_name}/<path:object_id>"
        mine = {"email__startswith": "staff-"} if model is User else {"pk": None}
        first = model._default_manager.exclude(**mine).first()
        if path.route.startswith(page_of) and first is not None:
            return f"/{path.route.replace('<path:object_id>', quote(str(first.pk)))}"
    return path.path


def admin_session() -> Headers:
    """Return what the browser of a superuser sends, who signed in just now."""
    client = Client()
    client.force_login(User.objects.create_superuser(f"staff-{secrets.token_hex(6)}@example.com", PASSWORD))
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    cookie = f"{settings.SESSION_COOKIE_NAME}={session}; {settings.CSRF_COOKIE_NAME}={CSRF}"
    return {"cookie": cookie, "x-csrftoken": CSRF, "referer": "http://testserver/admin/", "origin": "http://testserver"}


def test_no_body_makes_a_server_error_on_the_wire(signing_key: str, serve_process: ServeProcess) -> None:
    """Through the real server, with a body of known length, in chunks or none at all: no 5xx."""
    base = serve_process()
    statuses: Counter[int] = Counter()
    failures = []
    values = dict.fromkeys(VALUES, "01a20000-0000-7000-8000-000000000000")
    with httpx.Client(base_url=base, timeout=30) as browser:
        for path in (one.path for one in sweep.paths(values) if not one.is_page_of_staff):
            for body in (body for kind in (JSON, FORM) for body in sweep.bodies(kind, read=True)):
                if body.name not in ("deep", "other"):
                    content = iter([body.content]) if body.name == "malformed" and body.content else body.content
                    answer = browser.post(path, content=content, headers={"content-type": body.content_type})
                    statuses[answer.status_code] += 1
                    if answer.status_code >= 500:
                        failures.append(f"{answer.status_code} {path} {body.content_type} {body.name}")
    assert not failures
    assert sum(statuses.values()) > 500, statuses
