"""The guides of the site that this package is used in: what they show is made, run, and asked."""

import asyncio
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest
from asgiref.sync import sync_to_async

from accounts.users.models import User
from conftest import PASSWORD
from ironauth import settings_test
from ironauth.tests.docs.blocks import Guide
from ironauth.tests.docs.shell import commands, found, running, shell
from tokens.oauth.tests.clients.program import converse
from tokens.oauth.tests.clients.provider import Person, Provider

ISSUER = "https://id.example.com"
CREATE = ".venv/bin/python manage.py oauth_client create"
EMAIL = "ann@example.com"
#: A browser at the site: it is sent to IronAuth, comes back, and says who is signed in.
VISIT = """\
import json, os, sys

sys.path.insert(0, os.getcwd())
import django

django.setup()
from django.test import Client

input()
browser = Client(headers={"host": "shop.example.com"})
led = browser.get("/ironauth/sign-in/", secure=True)
print(json.dumps({"visit": led["Location"]}), flush=True)
back = browser.get(json.loads(input()).removeprefix("https://shop.example.com"), secure=True)
assert (back.status_code, back["Location"]) == (302, "/"), back.content
print(json.dumps({"passed": browser.session["_auth_user_id"]}), flush=True)
"""


#: Who the page's view finds, and what it refuses; and what the maps of the page give.
PEOPLE = """\
from django.contrib.auth.models import User
from django.test import TestCase, override_settings
from django.conf import settings
from ironauth_client.django.models import Identity
from ironauth_client.rest_framework import IronAuthAuthentication
from ironauth_client.testing import FakeIssuer
from rest_framework.test import APIRequestFactory

from shop.counts import count
from shop.people import Me

fake = FakeIssuer()
SETTING = {**settings.IRONAUTH_CLIENT, "ISSUER": fake.issuer, "TRANSPORT": fake.transport}


def request_with(**claims):
    token = fake.access_token(**{"sub": "ann", "scope": "account", **claims})
    return APIRequestFactory().get("/", headers={"Authorization": f"Bearer {token}"})


@override_settings(IRONAUTH_CLIENT=SETTING)
class PeopleTests(TestCase):
    def asked(self, **claims):
        return Me.as_view()(request_with(**claims))

    def test_a_user_of_the_table(self):
        user = User.objects.create_user("ann")
        Identity.objects.create(user=user, issuer=fake.issuer, subject="ann")
        self.assertEqual(self.asked().data, {"user": user.pk, "staff": False})
        self.assertEqual(self.asked(scope="orders:read").status_code, 403)
        User.objects.update(is_active=False)
        self.assertEqual(self.asked().status_code, 401)

    def test_a_function_view(self):
        self.assertEqual(count(request_with(scope="orders:read")).data, {"orders": 0})
        self.assertEqual(count(request_with(scope="account")).status_code, 403)
        expired = count(request_with(scope="orders:read", exp=1))
        self.assertEqual(expired.status_code, 401)
        self.assertEqual(expired.data, {"detail": "the token has expired", "code": "invalid_token"})

    def test_somebody_new(self):
        with override_settings(IRONAUTH_CLIENT={**SETTING, "CREATE_USERS": False}):
            self.assertEqual(self.asked().status_code, 401)
        self.assertEqual(self.asked().status_code, 200)
        self.assertEqual(self.asked().data["user"], User.objects.get().pk)
        self.assertEqual(self.asked(sub=fake.client_id).status_code, 401)

    def test_permissions_without_users(self):
        def may(**claims):
            user, _ = IronAuthAuthentication().authenticate(request_with(**claims))
            return user.has_perm("shop.change_order")

        self.assertTrue(may(scope="orders:write", roles=["clerks"]))
        self.assertFalse(may(scope="orders:read", roles=["clerks"]))
        self.assertFalse(may(scope="orders:write", roles=["guests"]))
"""
#: nginx with the location of a page before one that answers itself.
WEB_SERVER = """\
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log warn;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        include {folder}/token-paths.conf;
        location / {{ return 200 project; }}
    }}
}}
"""


class Told(BaseHTTPRequestHandler):
    """Says which path it is asked for, as which host, and for which address."""

    def do_POST(self) -> None:
        said = " ".join((self.path, self.headers["Host"], self.headers["X-Forwarded-For"])).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_arguments: object) -> None:
        """Stay quiet."""


def site(folder: Path) -> Path:
    """Make a project as Django's own command makes it."""
    folder.mkdir()
    shell("django-admin startproject shop .", folder)
    return folder


def add(guide: Guide, folder: Path, *names: str) -> None:
    """Write what a guide adds to the end of files."""
    for name in names:
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(guide.file(name))


@pytest.mark.django_db(transaction=True)
def test_rest_framework(tmp_path: Path, rs256_key: str) -> None:
    """The API of the page passes the tests of the page; its command makes a client that may ask about tokens."""
    folder = site(tmp_path / "site")
    with Guide("docs/guides/rest-framework.md") as guide:
        add(guide, folder, "shop/settings.py", "shop/api.py", "shop/urls.py", "shop/tests.py")
        guide.write(folder, "shop/people.py", "shop/counts.py")
        assert json.loads(guide.block('{"detail"')) == {"detail": "the token has expired", "code": "invalid_token"}
        commands(guide.block(f'{CREATE} --name "Orders API"'), tmp_path)
        assert json.loads((tmp_path / "orders-api.json").read_text())["resource_server"] is True
        (folder / "shop" / "test_people.py").write_text(PEOPLE, encoding="utf-8")
        shell(guide.block("python manage.py test shop"), folder)


#: What a client hears of the page's Django site, and who is let in.
SHOP = """\
from django.conf import settings
from django.test import SimpleTestCase, override_settings
from ironauth_client.testing import FakeIssuer

fake = FakeIssuer()
SETTING = {**settings.IRONAUTH_CLIENT, "ISSUER": fake.issuer, "TRANSPORT": fake.transport}


@override_settings(IRONAUTH_CLIENT=SETTING)
class MetadataTests(SimpleTestCase):
    def test_a_client_finds_the_server(self):
        said = self.client.get("/orders")["WWW-Authenticate"]
        path = "/.well-known/oauth-protected-resource/orders"
        self.assertEqual(said, f'Bearer resource_metadata="https://api.example.com{path}"')
        self.assertEqual(
            self.client.get(path).json(),
            {
                "resource": "https://api.example.com/orders",
                "authorization_servers": [fake.issuer],
                "bearer_methods_supported": ["header"],
                "scopes_supported": ["orders:read"],
                "resource_name": "Orders",
            },
        )
        for other in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mail"):
            self.assertEqual(self.client.get(other).status_code, 404)

    def test_the_audience_is_judged(self):
        for audience, status in (("https://api.example.com/orders", 200), ("https://api.example.com/mail", 401)):
            token = fake.access_token(aud=audience, scope="orders:read")
            answer = self.client.get("/orders", headers={"Authorization": f"Bearer {token}"})
            self.assertEqual(answer.status_code, status)

    def test_a_site_that_publishes_none(self):
        with override_settings(IRONAUTH_CLIENT={**SETTING, "METADATA": False}):
            self.assertEqual(self.client.get("/orders")["WWW-Authenticate"], "Bearer")
            self.assertEqual(self.client.get("/.well-known/oauth-protected-resource/orders").status_code, 404)
"""


@pytest.mark.live
@pytest.mark.django_db(transaction=True)
def test_several_apis(tmp_path: Path, rs256_key: str) -> None:
    """The commands of the page register an API and its clients; its service and its site pass their tests."""
    service, folder = tmp_path / "service", site(tmp_path / "site")
    service.mkdir()
    with Guide("docs/guides/several-apis.md") as guide:
        for name in ("Orders", "Notes"):
            commands(guide.block(f".venv/bin/python manage.py api_resource create --name {name}"), tmp_path)
        commands(guide.block(f"{CREATE} --name Shop"), tmp_path)
        made = json.loads(commands(guide.block(f'{CREATE} --name "Orders API"'), tmp_path))
        assert made["serves"] == ["https://api.example.com/orders"]
        guide.write(service, "app.py", "test_app.py")
        shell("python -m pytest -q -p no:cacheprovider test_app.py", service)
        add(guide, folder, "shop/settings.py", "shop/urls.py")
        (folder / "shop" / "tests.py").write_text(SHOP, encoding="utf-8")
        shell("python manage.py test shop", folder)


def test_token_paths_behind_nginx(tmp_path: Path) -> None:
    """The page's location hands the paths of tokens to IronAuth, by its name, and no other path."""
    program = f"exec {found('nginx')} -p {tmp_path} -e {tmp_path}/error.log -c {tmp_path}/nginx.conf"
    port, behind = settings_test._free_port(), ThreadingHTTPServer(("127.0.0.1", 0), Told)
    Thread(target=behind.serve_forever, daemon=True).start()
    (tmp_path / "nginx.conf").write_text(WEB_SERVER.format(folder=tmp_path, port=port), encoding="utf-8")
    try:
        with Guide("docs/guides/simplejwt.md", ("127.0.0.1:8000", f"127.0.0.1:{behind.server_port}")) as guide:
            guide.write(tmp_path, "token-paths.conf")
        with running(program, tmp_path, port), httpx.Client(base_url=f"http://127.0.0.1:{port}") as asking:
            for path in ("/api/token/", "/api/token/refresh/"):
                assert asking.post(path).text == f"{path} id.example.com 127.0.0.1"
            assert asking.post("/api/orders/").text == "project"
    finally:
        behind.shutdown()
        behind.server_close()


async def fastapi(provider: Provider, tmp_path: Path) -> None:
    """The service of the page passes the test of the page, and answers a token of a live server."""
    port = settings_test._free_port()
    changes = ((ISSUER, provider.issuer), ("8001", str(port)))
    with Guide("docs/guides/fastapi.md", *changes) as guide:
        guide.write(tmp_path, "app.py", "test_app.py")
        await asyncio.to_thread(shell, "python -m pytest -q -p no:cacheprovider test_app.py", tmp_path)
        await sync_to_async(commands)(guide.block(CREATE), tmp_path)
        with running(guide.block("ISSUER="), tmp_path, port):
            said = await asyncio.to_thread(shell, guide.block("value()"), tmp_path)
            async with httpx.AsyncClient() as asking:
                refused = await asking.get(f"http://127.0.0.1:{port}/orders")
        made = json.loads((tmp_path / "reports.json").read_text())
        assert json.loads(said) == {"person": made["client_id"]}
        assert json.loads(said).keys() == json.loads(guide.block('{"person"')).keys()
        assert refused.status_code == 401


def said_of(adopted: int, known: int, own: dict[str, str]) -> str:
    """Return what the command says of a table of two, where the first user has no address."""
    new = "1 people in the file have no user here"  # the provider's own person
    left = f"1 users here are nobody at {own['ISSUER']}: not moved in, or not in this file (1)"
    return f"{adopted} users adopted, {known} known before\n{new}\n{left}\n"


async def django_project(provider: Provider, tmp_path: Path) -> None:
    """A user of the project's own table is moved in, adopted, and signed in as the same row of that table."""
    folder = site(tmp_path / "site")
    people = "from django.contrib.auth.models import User as U; "
    made = f"U.objects.create_user('tom'); U.objects.create_user('ann', '{EMAIL}', '{PASSWORD}')"
    with (folder / "shop" / "settings.py").open("a", encoding="utf-8") as file:
        file.write('ALLOWED_HOSTS = ["shop.example.com"]\n')
    await asyncio.to_thread(shell, f'python manage.py migrate -v0\npython manage.py shell -c "{people}{made}"', folder)
    dump = Guide("docs/guides/moving-in-from.md").block("python manage.py dumpdata")
    await asyncio.to_thread(shell, dump, folder)
    dry_run = ".venv/bin/python manage.py import_users people.json --from django --dry-run"
    assert (await sync_to_async(commands)(dry_run, folder)).startswith("2 records")
    with Guide("docs/guides/existing-django.md") as guide:
        database = f"sqlite:///{folder / 'db.sqlite3'}"
        moved = guide.block(".venv/bin/python manage.py import_users")
        said = await asyncio.to_thread(shell, moved, tmp_path, SITE_DATABASE_URL=database)
        assert said.count("2 records") == 2
        await sync_to_async(commands)(guide.block(CREATE), tmp_path)
        client = json.loads((tmp_path / "shop-client.json").read_text())
        own = {
            "ISSUER": provider.issuer,
            "CLIENT_ID": client["client_id"],
            "CLIENT_SECRET": client["client_secret"],
        }
        add(guide, folder, "shop/settings.py", "shop/urls.py")
        await asyncio.to_thread(shell, guide.block("python manage.py migrate"), folder, **own)
        await sync_to_async(commands)(guide.block(".venv/bin/python manage.py export_users"), folder)
        adopt = guide.block("python manage.py adopt_users")
        assert await asyncio.to_thread(shell, adopt, folder, **own) == said_of(1, 0, own)
        assert await asyncio.to_thread(shell, adopt, folder, **own) == said_of(0, 1, own)
    (folder / "visit.py").write_text(VISIT, encoding="utf-8")
    start = [f"{name}={value}" for name, value in {**own, "DJANGO_SETTINGS_MODULE": "shop.settings"}.items()]
    ann = Person(provider.person.browser, EMAIL)
    package = f"PYTHONPATH={Path(__file__).parents[1]}"
    command = ("env", "-C", str(folder), package, *start, sys.executable, "visit.py")
    assert await converse(ann, {}, *command) == ["2"]
    assert (await User.objects.aget(email=EMAIL)).pk != 2


@pytest.mark.django_db(transaction=True)
async def test_beside_a_live_server(provider: Provider, tmp_path: Path) -> None:
    """FastAPI, and a Django project that exists; one test, because each start of a server takes seconds."""
    for guide in (fastapi, django_project):
        (tmp_path / guide.__name__).mkdir()
        await guide(provider, tmp_path / guide.__name__)
