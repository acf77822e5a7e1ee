"""Pages whose blocks are commands of ours, or what a command reads or the API takes."""

import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import bcrypt
import httpx
import pytest
from asgiref.sync import async_to_sync, sync_to_async
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from django.core.management import load_command_class
from pytest_django import Settings

from accounts.conftest import MakeUser, SignIn
from accounts.federation.models import UpstreamProvider
from accounts.mfa.totp import codes as totp
from accounts.mfa.totp.models import TotpFactor
from accounts.outbox import tokens as email_tokens
from accounts.outbox.models import EmailToken
from accounts.passwords import hashing
from accounts.transfer.records import Person
from accounts.transfer.tests.test_sources import PASSWORD as OLD
from accounts.transfer.tests.test_sources import app, keycloak_user, read
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from ironauth.server.worker_sockets import path_of
from ironauth.tests.deploy.files import DEPLOY
from ironauth.tests.docs.blocks import ROOT, Guide
from ironauth.tests.docs.shell import commands, found, shell
from ironauth.tests.test_boot import start
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.material import ED25519_JWK
from tokens.upstream import discovery
from tokens.upstream.tests.provider import FakeProvider, served

BCRYPT = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
EMAIL = "ann@example.com"
IMPORT = ".venv/bin/python manage.py import_users"
EXPORT = ".venv/bin/python manage.py export_users"
CREATE = ".venv/bin/python manage.py oauth_client create"

#: How the commands begin that put another upstream into nginx' files.
REPLACES_UPSTREAM = "sed -i -e '/^upstream ironauth {$/,/^}$/d' -e '1i include /etc/nginx/ironauth/"


def wrote(folder: Path, name: str, content: object) -> None:
    """Write an export of another system."""
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


@pytest.mark.django_db(transaction=True)
def test_moving_in(tmp_path: Path) -> None:
    """The commands read a realm and report; a line of the form makes an account with its password and app."""
    google = {"federatedIdentities": [{"identityProvider": "google", "userId": "7", "userName": "ann"}]}
    wrote(tmp_path, "realm.json", {"realm": "shop", "users": [keycloak_user(**app()) | google]})
    typed = (("$2b$12$…", BCRYPT), ('"BASE32"', '"MZXW6YTBMZXW6YTBMZXW6YTB"'), ("BASE64", "A" * 86 + "=="))
    with Guide("docs/guides/moving-in.md", *typed) as guide:
        said = commands(guide.block(f"{IMPORT} realm.json --from keycloak --dry-run"), tmp_path)
        assert re.search(r" 1  would be created\n.* 1  created\n", said, re.DOTALL), said
        assert json.loads((tmp_path / "report.jsonl").read_text())["outcome"] == "created"
        User.objects.all().delete()
        UpstreamProvider.objects.create(slug="google", name="Google", kind="google", sealed_secret=b"", client_id="us")
        said = commands(guide.block(f"{IMPORT} realm.json --from keycloak --identities"), tmp_path)
        assert "1  an identity at another provider that signs in here" in said
        lines = [" ".join(guide.block(start).split()) for start in ('{"external_id": "42"', '{"external_id": "43"')]
        (tmp_path / "people.jsonl").write_text("\n".join(lines), encoding="utf-8")
        values = settings_of(guide.block("IRONAUTH_LAZY_MIGRATION="))
    shown = start(["-c", "import ironauth.settings as s; print(s.IRONAUTH_LAZY_MIGRATION_UNTIL.isoformat())"], values)
    assert (shown.stdout, shown.stderr) == ("2027-04-01T00:00:00+00:00\n", "")
    commands(f"{IMPORT} people.jsonl --from jsonl --identities google=google", tmp_path)
    bob = User.objects.get(email="bob@example.com")
    assert (bob.identities.get().subject, bob.recovery_codes.count()) == ("10769150350006150715113082367", 1)
    ann = User.objects.get(email=EMAIL)
    assert (ann.name, ann.imported.external_id, ann.totp.confirmed_at is not None) == ("Ann Lee", "42", True)
    assert ann.check_password(PASSWORD)


@pytest.mark.live
@pytest.mark.django_db(transaction=True)
def test_moving_in_from_each_system(tmp_path: Path, rs256_key: str) -> None:
    """Each import finds the one person of a small export of that system, and writes nothing; the client is made."""
    django = {"email": EMAIL, "password": f"bcrypt${BCRYPT}", "is_active": True}
    columns = "id,email,encrypted_password,email_confirmed_at,created_at,raw_user_meta_data,banned_until,deleted_at"
    wrote(tmp_path, "people.json", [{"model": "auth.user", "pk": 7, "fields": django}])
    wrote(tmp_path, "export/shop-realm.json", {"realm": "shop", "users": [keycloak_user()]})
    wrote(tmp_path, "auth0.json", [{"user_id": "auth0|1", "email": EMAIL, "passwordHash": BCRYPT}])
    wrote(
        tmp_path, "firebase.json", {"users": [{"localId": "1", "email": EMAIL, "passwordHash": "lSrf", "salt": "42xE"}]}
    )
    parts = "base64_signer_key: jxsp, base64_salt_separator: Bw==, rounds: 8, mem_cost: 14"
    wrote(tmp_path, "hash-config.txt", f"hash_config {{ algorithm: SCRYPT, {parts} }}")
    wrote(tmp_path, "supabase.csv", f"{columns},is_anonymous\n7,{EMAIL},{BCRYPT},2024-01-02 03:04:05+00,,{{}},,,f\n")
    attributes = [{"Name": "sub", "Value": "s"}, {"Name": "email", "Value": EMAIL}]
    wrote(tmp_path, "cognito.json", {"Users": [{"Username": "a", "Attributes": attributes, "Enabled": True}]})
    site = tmp_path / "site.sqlite3"
    with closing(sqlite3.connect(site)) as shop, shop:
        shop.execute("CREATE TABLE auth_user (id INTEGER PRIMARY KEY, email, password, is_active)")
        shop.execute("INSERT INTO auth_user VALUES (7, ?, ?, 1)", (EMAIL, f"bcrypt${BCRYPT}"))
    with Guide("docs/guides/moving-in-from.md") as guide:
        wrote(tmp_path, "people.jsonl", guide.block('{"external_id"'))
        for start_of in (
            "--from",
            "people.json ",
            "export/",
            "auth0",
            "firebase",
            "supabase",
            "cognito",
            "people.jsonl",
        ):
            run = shell if start_of == "--from" else commands  # a test may open no database but the default one
            said = run(guide.block(f"{IMPORT} {start_of}"), tmp_path, SITE_DATABASE_URL=f"sqlite:///{site}")
            assert said.startswith("1 records, nothing written (dry run)\n"), said
            assert "        1  would be created" in said, said
        client = json.loads(commands(guide.block(CREATE), tmp_path))
        assert (client["auth_method"], client["trusted"]) == ("none", True)
        assert not User.objects.exists()
        gives_roles(guide, tmp_path)
        goes_back(guide, tmp_path)
        goes_back_to_keycloak(guide, tmp_path)


def gives_roles(guide: Guide, folder: Path) -> None:
    """Roles of a realm and a client, and a group, go to the account that the report names; another role to nobody."""
    has = {"realmRoles": ["default-roles-shop", "editor"], "clientRoles": {"shop": ["editor"]}, "groups": ["/staff"]}
    wrote(folder, "export/shop-realm.json", {"realm": "shop", "users": [keycloak_user() | has]})
    refused = {"id": "another", "user_id": None}
    report = [{"id": keycloak_user()["id"], "user_id": "01a1"}, refused]
    wrote(folder, "report.jsonl", "\n".join(map(json.dumps, report)))
    guide.write(folder, "roles.py")
    said = shell('BASE=https://id\nadminister() { echo "$@"; }\n' + guide.block("python3 roles.py"), folder)
    assert said.splitlines() == [
        f"-X PUT https://id/api/v1/users/01a1/roles/{role}" for role in ("editors", "helpers", "shop-editor")
    ]


def goes_back(guide: Guide, folder: Path) -> None:
    """Who was imported and is deleted here is named; who was refused, or never in the file, is not."""
    people = [keycloak_user() | {"id": name, "email": f"{name}@example.com"} for name in ("bob", "eve")]
    people += [
        keycloak_user() | {"id": "without", "email": ""},
        keycloak_user() | {"id": "twin", "email": "Bob@example.com"},
    ]
    wrote(folder, "export/shop-realm.json", {"realm": "shop", "users": people})
    commands(f"{IMPORT} export/shop-realm.json --from keycloak --report report.jsonl", folder)
    User.objects.get(email="eve@example.com").delete()
    User.objects.create_user("new@example.com", PASSWORD)
    commands(guide.block(f"{EXPORT} back.jsonl"), folder)
    guide.write(folder, "deleted.py")
    assert shell("python3 deleted.py", folder).split() == ["eve"]
    (folder / "back.jsonl").unlink()
    User.objects.all().delete()


def goes_back_to_keycloak(guide: Guide, folder: Path) -> None:
    """Who changed something here has it there under the old id; what is not from here stays; new people are added."""
    key = {"type": "webauthn", "secretData": "{}", "credentialData": "{}"}
    ann = keycloak_user(**key) | {"id": "a", "username": "ann", "realmRoles": ["editor"]}
    bob = keycloak_user(**app()) | {"id": "b", "username": "bob", "email": "bob@example.com"}
    cid = keycloak_user() | {"id": "c", "username": "cid", "email": ""}
    gone = keycloak_user() | {"id": "d", "username": "dan", "email": "dan@example.com"}
    wrote(folder, "export/shop-realm.json", {"realm": "shop", "users": [ann, bob, cid, gone]})
    commands(f"{IMPORT} export/shop-realm.json --from keycloak", folder)
    wrote(folder, "export/shop-realm.json", {"realm": "shop", "users": [ann, bob, cid]})
    came = User.objects.get(imported__external_id="a")
    came.set_password(PASSWORD)
    came.email = "ann.lee@example.com"
    came.save()
    key_id, sealed = totp.seal(b"N" * 20, came.pk)
    TotpFactor.objects.create(user=came, sealed=sealed, master_key_id=key_id, confirmed_at=clock.now())
    User.objects.create_user("eve@example.com", PASSWORD, name="Eve")
    commands(guide.block(f"{EXPORT} back.jsonl"), folder)
    guide.write(folder, "back_to_keycloak.py")
    shell("python3 back_to_keycloak.py", folder)
    written = {one["username"]: one for one in json.loads((folder / "back.json").read_text())["users"]}
    assert {name: one.get("id") for name, one in written.items()} == {
        "ann": "a",
        "bob": "b",
        "dan": "d",
        "eve@example.com": None,
    }
    assert (written["ann"]["email"], written["ann"]["realmRoles"]) == ("ann.lee@example.com", ["editor"])
    assert [one["type"] for one in written["ann"]["credentials"]] == ["password", "otp", "webauthn"]
    assert bob["credentials"][0] in written["bob"]["credentials"]
    assert "credentials" in written["dan"]
    back = {one.email: one for one in read("keycloak", folder / "back.json") if isinstance(one, Person)}
    for email, known in (("ann.lee@example.com", PASSWORD), ("bob@example.com", OLD), ("eve@example.com", PASSWORD)):
        assert async_to_sync(hashing.verify_password)(known, back[email].password_hash).ok, email
    assert [one.totp_secret for one in back.values()].count(b"N" * 20) == 2


@pytest.fixture
def there(settings: Settings) -> Iterator[FakeProvider]:
    """A provider on this machine."""
    settings.DEBUG = True
    settings.IRONAUTH_UPSTREAM_NETWORKS = ["127.0.0.0/8"]
    discovery.forget()
    with served(FakeProvider) as provider:
        provider.document = {"authorization_endpoint": f"{provider.issuer}/authorize"}
        yield provider


@pytest.mark.live
@pytest.mark.django_db(transaction=True)
def test_providers(tmp_path: Path, there: FakeProvider) -> None:
    """Each is stored with its secret, one that signs its secret too; one that is there answers."""
    (tmp_path / "secret.txt").write_text("the client's secret\n", encoding="utf-8")
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "AuthKey_KEY7890123.p8").write_bytes(pem)
    with Guide("docs/guides/upstream-providers.md", ("https://login.acme.example", there.issuer)) as guide:
        said = commands(guide.block(".venv/bin/python manage.py upstream_provider add acme"), tmp_path)
        assert any(line.startswith("It answers") for line in said.splitlines())
        shell(guide.block("{ echo TEAM123456"), tmp_path)
        said = commands(guide.block(".venv/bin/python manage.py upstream_provider add hub"), tmp_path)
        assert "Tokens of hub are kept from each person's next sign-in on." in said
    assert set(UpstreamProvider.objects.values_list("slug", flat=True)) == {"acme", "google", "apple", "hub"}


@pytest.mark.django_db(transaction=True)
def test_satosa(tmp_path: Path, there: FakeProvider) -> None:
    """Its keys are made by the page, its provider is added; the rest is run by the test with Keycloak."""
    found("openssl")
    (tmp_path / "secret.txt").write_text("a secret of letters\n", encoding="utf-8")
    with Guide("docs/guides/saml.md", ("https://saml.example.com", there.issuer)) as guide:
        shell(f"exec 2>&1\n{guide.block('mkdir -m 700 keys')}", tmp_path)
        said = commands(guide.block(".venv/bin/python manage.py upstream_provider add company"), tmp_path)
    assert any(line.startswith("It answers") for line in said.splitlines())
    assert (tmp_path / "keys").stat().st_mode & 0o077 == 0
    assert {file.name for file in (tmp_path / "keys").iterdir()} == {"saml.key", "saml.crt", "oidc.key"}


@pytest.mark.django_db(transaction=True)
def test_clients(tmp_path: Path, rs256_key: str) -> None:
    """The commands of four pages make clients: one with a secret, two by FAPI 2.0, one of our own without one."""
    readme = Guide("README.md").block(CREATE)
    with (
        Guide("docs/oauth/clients.md") as clients,
        Guide("docs/guides/single-page-app.md") as page,
        Guide("docs/guides/fapi.md") as fapi,
    ):
        assert clients.block(f"{CREATE} --name Wiki") == readme
        (tmp_path / "bank-keys.json").write_text(json.dumps({"keys": [ED25519_JWK]}), encoding="utf-8")
        assert json.loads(commands(clients.block(f"{CREATE} --name Bank"), tmp_path))["profile"] == "fapi2"
        made = json.loads(commands(fapi.block(f"{CREATE} --name Bank"), tmp_path))
        assert (made["profile"], made["request_object_signing_alg"]) == ("fapi2-message-signing", "EdDSA")
        assert "client_secret" in json.loads(commands(readme, tmp_path))
        assert "client_secret" not in json.loads(commands(page.block(CREATE), tmp_path))
    public = OAuthClient.objects.get(name="Shop")
    assert (public.trusted, public.auth_method) == (True, OAuthClient.AuthMethod.NONE)
    assert set(public.scopes) == {"openid", "profile", "offline_access"}


def settings_of(block: str) -> dict[str, str]:
    """Return what a block of settings sets."""
    lines = (line.partition(" #")[0].strip() for line in block.splitlines())
    return dict(line.split("=", 1) for line in lines)


def test_the_brand(tmp_path: Path) -> None:
    """The settings of the page are taken at the start."""
    (tmp_path / "logo.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>", encoding="utf-8")
    (tmp_path / "logo.png").write_bytes((ROOT / "docs" / "images" / "sign-in.png").read_bytes())
    with Guide("docs/guides/branding.md", ("/srv/acme/files", str(tmp_path))) as guide:
        values = settings_of(guide.block("IRONAUTH_BRAND_NAME"))
    names = ", ".join(f"s.{name}" for name in values)
    shown = start(["-c", f"import ironauth.settings as s; print(*map(str, ({names})), sep='\\n')"], values)
    assert shown.returncode == 0, shown.stderr
    read = [line.strip("[']").removeprefix(f"{tmp_path}/") for line in shown.stdout.splitlines()]  # a path, a list
    assert read == list(values.values())


@pytest.mark.django_db(transaction=True)
async def test_an_invitation(api: httpx.AsyncClient, make_user: MakeUser, sign_in: SignIn) -> None:
    """The body of the page invites somebody."""
    rights = ("accounts.view_invitation", "accounts.add_invitation")
    staff = await sync_to_async(make_user)(*rights, email="staff@example.com")
    with Guide("docs/guides/signing-up.md") as guide:
        body = json.loads(guide.block('{"email"'))
    answer = await api.post("/api/v1/users/invitations", json=body, headers=await sign_in(staff))
    assert answer.status_code == 201, answer.text
    assert {name: answer.json()[name] for name in body} == body


@pytest.mark.django_db(transaction=True)
async def test_a_code_by_mail(api: httpx.AsyncClient, member: dict[str, Any], settings: Settings) -> None:
    """The requests of the page sign somebody in, and each answer has what the page shows."""
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = True
    await User.objects.filter(pk=member["id"]).aupdate(email_verified_at=clock.now())
    with Guide("docs/guides/sign-in-by-email.md", ("mia@example.com", member["email"])) as guide:
        asked, answered, confirmed, then = guide.block("POST /api/v1/access/signin/email").splitlines()

    async def sent(line: str, **more: str) -> httpx.Response:
        method, path, body = line.split(maxsplit=2)
        return await api.request(method, path, json={**json.loads(body), **more})

    first = await sent(asked)
    shown = re.fullmatch(r"→ (\d+) (.*)", answered)
    assert shown is not None
    assert first.status_code == int(shown[1])
    assert {**first.json(), "code_token": "…"} == json.loads(shown[2])
    code = email_tokens.code(await EmailToken.objects.aget(user__email=member["email"], purpose="sign_in"))
    second = await sent(confirmed, code=code, code_token=first.json()["code_token"])
    assert then == "→ 200, as POST /api/v1/access/signin"
    assert second.status_code == 200
    assert "access_token" in second.json()


def test_several_nodes(tmp_path: Path) -> None:
    """The command for nginx puts the nodes in the place of the one socket; the unit starts a server that there is."""
    page = Guide("docs/operate/deploy.md", ("/etc/nginx/ironauth/", f"{tmp_path}/"))
    shutil.copytree(DEPLOY / "nginx", tmp_path, dirs_exist_ok=True)
    shell(page.block(f"{REPLACES_UPSTREAM}upstream-nodes.conf"), tmp_path)
    changed = (tmp_path / "ironauth.conf").read_text(encoding="utf-8")
    assert changed.startswith(f"include {tmp_path}/upstream-nodes.conf;\n")
    assert "upstream ironauth {" not in changed
    assert "upstream ironauth {" in (tmp_path / "upstream-nodes.conf").read_text(encoding="utf-8")
    (line,) = re.findall(r"^ExecStart=.* manage\.py serve (.+)$", page.block("[Service]"), re.MULTILINE)
    options = load_command_class("ironauth", "serve").create_parser("manage.py", "serve").parse_args(line.split())
    assert (options.host, options.port) == ("10.0.0.11", 8000)


def test_addressed_workers(tmp_path: Path) -> None:
    """The command for nginx puts workers in the place of the one socket; the unit starts as many, where nginx looks."""
    page = Guide("docs/operate/deploy.md", ("/etc/nginx/ironauth/", f"{tmp_path}/"))
    shutil.copytree(DEPLOY / "nginx", tmp_path, dirs_exist_ok=True)
    shell(page.block(f"{REPLACES_UPSTREAM}upstream-workers.conf"), tmp_path)
    changed = (tmp_path / "ironauth.conf").read_text(encoding="utf-8")
    assert changed.startswith(f"include {tmp_path}/upstream-workers.conf;\n")
    assert "upstream ironauth {" not in changed
    unit = page.block("# Workers with a socket each")
    (line,) = re.findall(r"^ExecStart=.* manage\.py serve (.+)$", unit, re.MULTILINE)
    options = load_command_class("ironauth", "serve").create_parser("manage.py", "serve").parse_args(line.split())
    for file, prefix in (("nginx/upstream-workers.conf", "unix:"), ("haproxy/workers.cfg", "unix@")):
        named = re.findall(rf"{prefix}(/\S+)", (DEPLOY / file).read_text(encoding="utf-8"))
        assert named == [str(path_of(options.worker_sockets, number)) for number in range(int(options.workers))]


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("signing_key", "throttled")
async def test_rate_limit_headers(api: httpx.AsyncClient) -> None:
    """A first sign-up has the header fields of the page, letter for letter."""
    answer = await api.post("/api/v1/access/signup", json={"email": EMAIL, "password": PASSWORD})
    with Guide("docs/reference/api-changes.md") as guide:
        shown = dict(line.split(": ", 1) for line in guide.block("RateLimit-Policy").splitlines())
    assert {name: answer.headers[name] for name in shown} == shown
