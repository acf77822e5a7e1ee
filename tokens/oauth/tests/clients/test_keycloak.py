"""Signing in here with a real Keycloak, by OpenID Connect and by SAML, and moving its people in.

It takes a minute to start, so one serves all.
"""

import json
import threading
from base64 import b32encode, b64encode
from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha512
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any, Final
from unittest.mock import AsyncMock
from urllib.parse import parse_qsl, urlsplit

import httpx
import pyotp
import pytest
from asgiref.sync import sync_to_async
from django.core.management import call_command
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.federation.models import Identity
from accounts.users import services as users
from accounts.users.models import User
from ironauth import settings_test
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.outbound import request
from ironauth.tests.browser.conftest import OpenPage, OpenSite
from ironauth.tests.docs.blocks import Guide
from ironauth.tests.docs.shell import shell
from tokens.oauth.tests.clients import by_chromium
from tokens.oauth.tests.clients.by_chromium import store
from tokens.oauth.tests.clients.elsewhere import Page, walked
from tokens.oauth.tests.clients.keycloak import Keycloak, installed
from tokens.oauth.tests.clients.satosa import Satosa, trusting
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, form_to
from tokens.sessions.models import Session
from tokens.upstream import discovery, providers

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("signing_key")]

CLIENT_ID, SECRET = "ironauth", "a secret: of two parts"
MOVER: Final = "ironauth-mover"
PEOPLE: Final = 100
ISSUER: Final = "http://localhost:8000"


def password_of(number: int) -> str:
    """Return the password of a person there."""
    return f"the password of person {number}"


def app_of(number: int) -> str | None:
    """Return the secret of a person's authenticator app, which every other one has."""
    return f"{number:020d}" if number % 2 else None


def code_of(number: int) -> str:
    """Return the recovery code of a person who has an app."""
    return f"CODE{number:08}"


def person(number: int) -> dict[str, Any]:
    """Return somebody as a realm's file names them: Keycloak makes the hash."""
    credentials = [{"type": "password", "value": password_of(number)}]
    if (secret := app_of(number)) is not None:
        form = {"subType": "totp", "digits": 6, "counter": 0, "period": 30, "algorithm": "HmacSHA1"}
        app = {"type": "otp", "secretData": json.dumps({"value": secret}), "credentialData": json.dumps(form)}
        credentials.append(app)
        kept = [{"number": 1, "encodedHashedValue": b64encode(sha512(code_of(number).encode()).digest()).decode()}]
        told = {"hashIterations": 1, "algorithm": "RS512", "remaining": 1, "total": 12}
        codes = {"secretData": json.dumps({"codes": kept}), "credentialData": json.dumps(told)}
        credentials.append({"type": "recovery-authn-codes", **codes})
    return {
        "username": f"person{number}",
        "email": f"Person{number}@example.org",
        "emailVerified": True,
        "enabled": True,
        "firstName": "Person",
        "lastName": str(number),
        "credentials": credentials,
        "realmRoles": ["editor"] if number >= PEOPLE else [],
        "federatedIdentities": [{"identityProvider": "goog", "userId": str(1_000 + number), "userName": "p@gmail.com"}],
    }


def realm(name: str, numbers: range, **more: Any) -> dict[str, Any]:
    """Return a realm with these people."""
    google = {
        "alias": "goog",
        "providerId": "google",
        "enabled": True,
        "config": {"clientId": "x", "clientSecret": "y"},
    }
    people = [person(one) for one in numbers]
    fixed = {"realm": name, "enabled": True, "sslRequired": "none", "identityProviders": [google], "users": people}
    return fixed | more


class Told:
    """What Keycloak has posted, oldest first, and where it posts."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.forms: Queue[dict[str, str]] = Queue()


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    """A server that takes what is posted to it."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            found.forms.put(dict(parse_qsl(body)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Told(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield found
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def satosa(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Satosa]:
    """A SAML proxy that knows us, and that Keycloak knows; not running yet."""
    secret = "ofLettersAndDigits0nly"
    redirect_uri = f"{ISSUER}/oauth/upstream/company"
    found = Satosa(tmp_path_factory.mktemp("satosa"), client_id=CLIENT_ID, secret=secret, redirect_uri=redirect_uri)
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def port() -> int:
    """The port of the server that a browser is sent to."""
    return settings_test._free_port()


@pytest.fixture(scope="module")
def keycloak(tmp_path_factory: pytest.TempPathFactory, told: Told, satosa: Satosa, port: int) -> Iterator[Keycloak]:
    """A running Keycloak: a realm of today's hashes that knows us, and two of those that older versions made."""
    client = {
        "clientId": CLIENT_ID,
        "secret": SECRET,
        "redirectUris": [f"{issuer}/oauth/upstream/keycloak" for issuer in (ISSUER, f"http://localhost:{port}")],
        "attributes": {
            "pkce.code.challenge.method": "S256",
            "backchannel.logout.url": f"{told.url}/logout",
            "backchannel.logout.session.required": "true",
        },
    }
    mover = {"clientId": MOVER, "secret": SECRET, "directAccessGrantsEnabled": True, "standardFlowEnabled": False}
    older = "hashAlgorithm(pbkdf2-sha512) and hashIterations(210000)"
    oldest = "hashAlgorithm(pbkdf2-sha256) and hashIterations(27500)"
    found = Keycloak(
        installed(),
        tmp_path_factory.mktemp("keycloak"),
        realm("today", range(40), clients=[client, mover, satosa.as_known_to_keycloak()]),
        realm("older", range(40, 70), passwordPolicy=older),
        realm("oldest", range(70, PEOPLE), passwordPolicy=oldest),
        realm("shop", range(PEOPLE, PEOPLE + 4), passwordPolicy=older, roles={"realm": [{"name": "editor"}]}),
    )
    try:
        found.start()
        yield found
    finally:
        found.stop()


async def test_people_come_from_there(
    api: httpx.AsyncClient, transactional_db: None, keycloak: Keycloak, told: Told, settings: Settings
) -> None:
    """From a client's link over our page and Keycloak's to the client, twice with one account; its logout ends both."""
    await sync_to_async(keycloak.start)()
    settings.DEBUG = True  # http on this machine
    settings.IRONAUTH_UPSTREAM_NETWORKS = ["127.0.0.0/8"]
    issuer = keycloak.issuer("today")
    await store("keycloak", "Keycloak", issuer, (CLIENT_ID, SECRET), "keycloak")
    providers.outdated()
    discovery.forget()
    client, _ = await sync_to_async(make_client)(trusted=True)
    for _ in range(2):
        page = await authorize(api, client)
        form = form_to(page, "/oauth/upstream").fields
        leads = await api.post("/oauth/upstream", data={**form, "provider": "keycloak"})
        typed = {"username": "person2", "password": password_of(2)}
        back = await walked(Page(leads.text).link, f"{ISSUER}/oauth/upstream/", typed)
        parts = urlsplit(back)
        assert answered(await api.get(f"{parts.path}?{parts.query}"))["code"]
        api.cookies.clear()
    identity = await Identity.objects.aget()
    user = await User.objects.aget()
    assert (identity.issuer, identity.user_id) == (issuer, user.pk)
    assert (user.email, user.name) == ("person2@example.org", "Person 2")

    live = Session.objects.filter(revoked_at=None)
    assert await live.acount() == 2
    await sync_to_async(keycloak.sign_out)("today", "person2")
    for left in (1, 0):
        form = await sync_to_async(told.forms.get)(timeout=30)
        assert (await api.post("/oauth/upstream/keycloak/logout", data=form)).status_code == 200
        assert await live.acount() == left
    providers.outdated()


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_people_come_by_chromium(
    transactional_db: None, keycloak: Keycloak, port: int, open_site: OpenSite, open_page: OpenPage
) -> None:
    """The same with Keycloak's page in a browser, from an application's server to it again."""
    await sync_to_async(keycloak.start)()
    await store("keycloak", "Keycloak", keycloak.issuer("today"), (CLIENT_ID, SECRET), "keycloak")
    typed = {"username": "person8", "password": password_of(8)}
    user = await by_chromium.come_twice(open_site(port, **by_chromium.HERE), open_page, "keycloak", typed)
    assert (user.email, user.name) == ("person8@example.org", "Person 8")


async def test_people_come_by_saml(
    api: httpx.AsyncClient,
    transactional_db: None,
    keycloak: Keycloak,
    satosa: Satosa,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From a client's link over our page, SATOSA and Keycloak's form to the client: an account of what SAML says.

    Another sign-in of the same person finds it, somebody else's makes another one.
    """
    await sync_to_async(keycloak.start)()
    await sync_to_async(satosa.start)(f"{keycloak.issuer('today')}/protocol/saml/descriptor")
    monkeypatch.setenv("SSL_CERT_FILE", str(satosa.trusted))
    monkeypatch.setattr(request, "_tls", request._tls.__wrapped__)  # read anew
    settings.IRONAUTH_UPSTREAM_NETWORKS = ["127.0.0.0/8"]
    await store("company", "Company", satosa.issuer, (CLIENT_ID, satosa.secret))
    providers.outdated()
    discovery.forget()
    client, _ = await sync_to_async(make_client)(trusted=True)
    for number in (4, 4, 6):
        page = await authorize(api, client)
        form = form_to(page, "/oauth/upstream").fields
        leads = await api.post("/oauth/upstream", data={**form, "provider": "company"})
        typed = {"username": f"person{number}", "password": password_of(number)}
        back = await walked(Page(leads.text).link, f"{ISSUER}/oauth/upstream/", typed, trusting(satosa.trusted))
        parts = urlsplit(back)
        assert answered(await api.get(f"{parts.path}?{parts.query}"))["code"]
        api.cookies.clear()
    found = [one async for one in User.objects.order_by("pk").values_list("email", "name", "identities__issuer")]
    assert found == [(f"person{number}@example.org", f"Person {number}", satosa.issuer) for number in (4, 6)]
    providers.outdated()


async def test_people_move_in_one_by_one(
    api: httpx.AsyncClient,
    transactional_db: None,
    keycloak: Keycloak,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first sign-in asks Keycloak for the password, the next one does not; the id is the one of its export.

    A wrong password, and the right one of a person with an authenticator app there, move nobody.
    """
    await sync_to_async(keycloak.start)()
    settings.IRONAUTH_LAZY_MIGRATION = "keycloak"
    settings.IRONAUTH_LAZY_MIGRATION_URL = keycloak.issuer("today")
    settings.IRONAUTH_LAZY_MIGRATION_CLIENT_ID, settings.IRONAUTH_LAZY_MIGRATION_SECRET = MOVER, SECRET
    settings.IRONAUTH_LAZY_MIGRATION_UNTIL = clock.now() + timedelta(days=1)
    settings.IRONAUTH_LAZY_MIGRATION_NETWORKS = ["127.0.0.0/8"]
    settings.IRONAUTH_LAZY_MIGRATION_TRUSTS_VERIFIED = True
    settings.IRONAUTH_LAZY_MIGRATION_TIMEOUT_S = 10.0  # it may be busy; refusals do not wait for it here
    monkeypatch.setattr(users, "wait_for_step", AsyncMock())

    async def sign_in(number: int, password: str) -> int:
        known = {"email": f"person{number}@example.org", "password": password}
        return (await api.post("/api/v1/access/signin", json=known)).status_code

    assert await sign_in(12, password_of(13)) == 401
    assert await sign_in(13, password_of(13)) == 401
    assert [await sign_in(number, password_of(number)) for number in (12, 14)] == [200, 200]
    assert await User.objects.acount() == 2
    user = await User.objects.select_related("imported").aget(email="person12@example.org")
    assert (user.name, user.email_verified_at is not None) == ("Person 12", True)
    there = await sync_to_async(keycloak.id_of)("today", "person12")
    assert (user.imported.source, user.imported.external_id) == ("keycloak", there)
    assert await sync_to_async(audit.wait_until_written)()
    failed = AuditEvent.objects.filter(event="sign_in", outcome="failure").order_by("id")
    assert [one.details["reason"] async for one in failed] == ["old_system_refused"] * 2
    settings.IRONAUTH_LAZY_MIGRATION_URL = "http://127.0.0.1:1/realms/gone"
    assert await sign_in(12, password_of(12)) == 200


async def test_everybody_moves_in(
    api: httpx.AsyncClient, transactional_db: None, keycloak: Keycloak, tmp_path: Path
) -> None:
    """Exported by its own command and imported, each of a hundred people signs in with password and code.

    Each has the identity at another provider that they had there, and signs in with a recovery code in place of an app.
    """
    folder = await sync_to_async(keycloak.export)()
    await store("google", "Google", "https://accounts.google.com", (CLIENT_ID, SECRET), "google")
    for name, count in (("today", 40), ("older", 30), ("oldest", 30)):
        report = tmp_path / f"{name}.jsonl"
        file = folder / f"{name}-realm.json"
        options = ("--from", "keycloak", "--report", str(report), "--identities", "goog=google")
        await sync_to_async(call_command)("import_users", str(file), *options)
        assert [json.loads(line)["outcome"] for line in report.read_text().splitlines()] == ["created"] * count
    for number in range(PEOPLE):
        known = {"email": f"person{number}@example.org", "password": password_of(number)}
        answer = await api.post("/api/v1/access/signin", json=known)
        if (secret := app_of(number)) is not None:
            assert answer.status_code == 401, answer.text
            code = pyotp.TOTP(b32encode(secret.encode()).decode()).now()
            given = {"mfa_token": answer.json()["mfa_token"], "code": code}
            with_code = await api.post("/api/v1/access/signin/mfa", json={**given, "code": code_of(number)})
            assert with_code.status_code == 200, (number, with_code.text)
            again = await api.post("/api/v1/access/signin", json=known)
            given["mfa_token"] = again.json()["mfa_token"]
            answer = await api.post("/api/v1/access/signin/mfa", json=given)
        assert answer.status_code == 200, (number, answer.text)
    held = [one async for one in Identity.objects.order_by("subject").values_list("subject", "user__email")]
    assert held == [(str(1_000 + number), f"person{number}@example.org") for number in range(PEOPLE)]


async def test_people_go_back(transactional_db: None, keycloak: Keycloak, tmp_path: Path) -> None:
    """The guide's program gives Keycloak new passwords, apps and people; ids, roles and old passwords stay there."""
    exported = await sync_to_async(keycloak.export)()
    moved, kept, left, refused = (f"person{number}" for number in range(PEOPLE, PEOPLE + 4))
    people = json.loads((exported / "shop-realm.json").read_text())
    ids = {one["username"]: one["id"] for one in people["users"]}
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "shop-realm.json").write_text(json.dumps(people))
    given = [one for one in people["users"] if one["username"] != refused]
    (tmp_path / "given.json").write_text(json.dumps({"users": given}))
    await sync_to_async(call_command)("import_users", str(tmp_path / "given.json"), "--from", "keycloak")
    user = await User.objects.aget(email=f"{moved}@example.org")
    await sync_to_async(user.set_password)("a password of today")
    user.email = "elsewhere@example.org"
    await user.asave()
    named = {"given_name": "New", "family_name": "Person"}  # Keycloak asks for both before it lets anybody in
    await sync_to_async(User.objects.create_user)("new@example.org", "a password of today", **named)
    await sync_to_async(call_command)("export_users", str(tmp_path / "back.jsonl"), "--secrets")
    Guide("docs/guides/moving-in-from.md").write(tmp_path, "back_to_keycloak.py")
    await sync_to_async(shell)("python3 back_to_keycloak.py", tmp_path)

    await sync_to_async(keycloak.start)()
    back = json.loads((tmp_path / "back.json").read_text())
    told = await sync_to_async(keycloak.imported)("shop", back)
    assert told == {"added": 1, "overwritten": 3, "skipped": 0}
    for name, known in ids.items():
        assert await sync_to_async(keycloak.id_of)("shop", name) == known
        assert "editor" in await sync_to_async(keycloak.roles_of)("shop", name)
    lets_in = sync_to_async(keycloak.lets_in)
    code = pyotp.TOTP(b32encode(str(app_of(PEOPLE + 1)).encode()).decode()).now()
    assert not await lets_in("shop", moved, password_of(PEOPLE))
    assert await lets_in("shop", moved, "a password of today")
    assert await lets_in("shop", "elsewhere@example.org", "a password of today")
    assert await lets_in("shop", "new@example.org", "a password of today")
    assert not await lets_in("shop", kept, password_of(PEOPLE + 1))
    assert await lets_in("shop", kept, password_of(PEOPLE + 1), code)
    assert await lets_in("shop", left, password_of(PEOPLE + 2))
