"""The samples for resource servers in deploy/samples, run as their readers would run them, against a live server."""

import asyncio
import io
import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.management import call_command

from accounts.users.models import User
from conftest import PASSWORD
from ironauth import settings_test
from tokens.oauth.tests import walk
from tokens.oauth.tests.flow import Party, approve
from tokens.oauth.tests.material import make_client

pytestmark = pytest.mark.django_db(transaction=True)

SAMPLES = settings.BASE_DIR / "deploy" / "samples"
START_S = 30.0
NGINX = shutil.which("nginx", path=os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin")))
MAIN = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
{user}
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{ listen 127.0.0.1:{port}; include {folder}/forward-auth.conf; }}
}}
"""

type Start = Callable[..., None]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A starter of programs that listen on a port; ends them."""
    running: list[subprocess.Popen[bytes]] = []

    def start(command: list[str], port: int, **environment: str) -> None:
        log = tmp_path / f"{port}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=file, stderr=file)
        running.append(process)
        deadline = time.monotonic() + START_S
        while process.poll() is None and time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError(f"{command}: {log.read_text()[-2_000:]}")

    yield start
    for process in running:
        process.terminate()
        process.wait(15)


@pytest.fixture
async def ironauth(serve_process: Callable[..., str], signing_key: str) -> str:
    """A live server; where it listens is its issuer, as a resource server knows it."""
    port = settings_test._free_port()
    address = f"http://127.0.0.1:{port}"
    await asyncio.to_thread(serve_process, port=port, IRONAUTH_ISSUER=address)
    return address


@pytest.fixture
async def person(new_email: Callable[[], str]) -> uuid.UUID:
    """Somebody who uses the API."""
    return (await sync_to_async(User.objects.create_user)(email=new_email())).pk


@pytest.fixture
async def api_port(ironauth: str, start: Start) -> int:
    """The sample API, and its own client, that may ask about everybody's tokens."""
    gateway, secret = await sync_to_async(make_client)(name="Gateway", resource_server=True)
    port = settings_test._free_port()
    command = [sys.executable, str(SAMPLES / "django_api.py"), str(port)]
    known = {"IRONAUTH_ISSUER": ironauth, "IRONAUTH_CLIENT": f"{gateway.pk}:{secret}"}
    await asyncio.to_thread(start, command, port, PYTHONDONTWRITEBYTECODE="1", **known)
    return port


async def _tokens(wiki: Party, person: uuid.UUID, **changes: Any) -> dict[str, Any]:
    answer = await wiki.redeem(await sync_to_async(approve)(wiki.client, person, **changes))
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def _own_token(server: httpx.AsyncClient) -> str:
    """Return a client's token for itself."""
    grants = ["authorization_code", "client_credentials"]
    machine = Party(server, *await sync_to_async(make_client)(name="Machine", grants=grants))
    answer = await machine.post("/oauth/token", grant_type="client_credentials", scope="profile")
    assert answer.status_code == 200, answer.text
    return str(answer.json()["access_token"])


async def test_an_api_believes_good_tokens_alone(ironauth: str, api_port: int, person: uuid.UUID) -> None:
    """By keys and by introspection; one test, because each start of a server takes seconds."""
    async with (
        httpx.AsyncClient(base_url=ironauth, timeout=30) as server,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{api_port}", timeout=30) as api,
    ):
        wiki = Party(server, *await sync_to_async(make_client)())
        tokens, poor = await _tokens(wiki, person), await _tokens(wiki, person, scope="openid")
        header, claims, signature = tokens["access_token"].split(".")
        forged = f"{header}.{claims}.{signature[:-4]}{'AAAA' if signature[-4:] != 'AAAA' else 'BBBB'}"

        async def ask(path: str, token: str) -> int:
            return (await api.get(path, headers=[(b"Authorization", f"Bearer {token}".encode())])).status_code

        for path in ("/by-keys", "/by-introspection"):
            for _ in range(2):  # the second time without IronAuth
                answer = await api.get(path, headers={"Authorization": f"Bearer {tokens['access_token']}"})
                assert (answer.status_code, answer.text) == (200, answer.text)
                assert answer.json() == {"sub": str(person), "client_id": str(wiki.client.pk)}
            assert await ask(path, poor["access_token"]) == 403
            assert await ask(path, await _own_token(server)) == 200
            for bad in (forged, tokens["id_token"], tokens["refresh_token"], "x", "a.b.c", "é", "x" * 9_000):
                assert await ask(path, bad) == 401, (path, bad[:20])
            unknown = await api.get(path)
            assert (unknown.status_code, unknown.headers["www-authenticate"]) == (401, "Bearer")
        assert (await wiki.post("/oauth/revoke", token=poor["refresh_token"])).status_code == 200
        revoked = await _tokens(wiki, person)
        assert (await wiki.post("/oauth/revoke", token=revoked["refresh_token"])).status_code == 200
        assert await ask("/by-introspection", revoked["access_token"]) == 401
        assert await ask("/by-keys", revoked["access_token"]) == 200  # until it expires: what the sample says


async def test_the_demo_signs_somebody_in(
    rs256_key: str, ironauth: str, start: Start, new_email: Callable[[], str], tmp_path: Path
) -> None:
    """With what the command prints, as the README walks: form, consent, callback; a forged answer is refused."""
    email, port = new_email(), settings_test._free_port()
    await sync_to_async(User.objects.create_user)(email=email, password=PASSWORD, name="Mia")
    made, callback = io.StringIO(), f"http://127.0.0.1:{port}/callback"
    await sync_to_async(call_command)("oauth_client", "create", name="Demo", redirect_uri=[callback], stdout=made)
    (tmp_path / "client.json").write_text(made.getvalue())
    command = [sys.executable, str(SAMPLES / "demo_client.py"), str(tmp_path / "client.json"), ironauth]
    await asyncio.to_thread(start, command, port)
    async with httpx.AsyncClient(base_url=ironauth, timeout=30) as browser:
        led = await browser.get(f"http://127.0.0.1:{port}/sign-in")
        page = await browser.get(led.headers["location"])
        asked = await walk.by_password(browser, page, email)
        back = (await walk.say(browser, asked, "allow")).headers["location"]
        assert back.startswith(callback)
        forged = await browser.get(callback, params={"code": "x", "state": "x", "iss": ironauth})
        assert (forged.status_code, "Not signed in" in forged.text) == (400, True)
        led = await browser.get(f"http://127.0.0.1:{port}/sign-in")
        back = (await browser.get(led.headers["location"])).headers["location"]  # allowed once, and signed on
        signed_in = await browser.get(back)
        assert signed_in.status_code == 200, signed_in.text
        assert "Signed in" in signed_in.text
        assert email in signed_in.text
        assert (await browser.get(back)).status_code == 400  # a second time is no sign-in that began there
    log = (tmp_path / f"{port}.log").read_text()
    assert "Open http" in log
    assert "Warning" not in log  # of the algorithm's name, which is what most libraries know


async def test_nginx_asks_before_it_lets_a_request_through(
    ironauth: str, api_port: int, person: uuid.UUID, start: Start, tmp_path: Path
) -> None:
    """What IronAuth says arrives in headers that no caller can set; without a good token nothing arrives."""
    if NGINX is None:
        reason = "nginx is not installed (Debian: apt install nginx-light)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    port = settings_test._free_port()
    sample = (SAMPLES / "nginx-forward-auth.conf").read_text()
    for written, here in (
        ("http://127.0.0.1:8000/", f"{ironauth}/"), ("127.0.0.1:3000;", f"127.0.0.1:{api_port};"),
        ("?scope=account;", "?scope=profile;"), ("Host id.example.com;", "Host 127.0.0.1;"),
        ("Host $host;", "Host 127.0.0.1;"),
    ):  # fmt: skip
        assert sample.count(written) == 1
        sample = sample.replace(written, here)
    (tmp_path / "forward-auth.conf").write_text(sample)
    user = "user root;" if os.geteuid() == 0 else ""  # its workers could not read this folder otherwise
    (tmp_path / "nginx.conf").write_text(MAIN.format(folder=tmp_path, port=port, user=user))
    command = [NGINX, "-p", str(tmp_path), "-e", str(tmp_path / "error.log"), "-c", str(tmp_path / "nginx.conf")]
    await asyncio.to_thread(start, command, port)
    async with (
        httpx.AsyncClient(base_url=ironauth, timeout=30) as server,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as proxy,
    ):
        wiki = Party(server, *await sync_to_async(make_client)())
        tokens, poor = await _tokens(wiki, person), await _tokens(wiki, person, scope="openid")
        lies = {"X-Auth-Subject": "somebody-else", "X-Auth-Scope": "profile", "X-Auth-Roles": "boss"}
        lies |= {"X-Auth-Organization": "acme", "X-Auth-Organization-Roles": "owner"}

        async def ask(token: str, method: str = "GET") -> httpx.Response:
            given = {"Authorization": f"Bearer {token}"} if token else {}
            return await proxy.request(method, "/behind-nginx", headers={**lies, **given})

        answer = await ask(tokens["access_token"])
        assert (answer.status_code, answer.json()["Subject"]) == (200, str(person))
        assert answer.json() == {"Subject": str(person), "Scope": tokens["scope"], "Roles": "", "Organization": ""}
        forbidden = await ask(poor["access_token"])
        assert (forbidden.status_code, "nginx" in forbidden.text) == (403, True)  # the application is not even asked
        assert (await ask(tokens["access_token"], "POST")).status_code == 405  # asked about by GET, passed on as POST
        for bad in ("", "x", tokens["id_token"], tokens["refresh_token"], await _own_token(server)):
            refused = await ask(bad)
            assert refused.status_code == 401
            assert "Bearer" in refused.headers["www-authenticate"]
        assert (await wiki.post("/oauth/revoke", token=tokens["refresh_token"])).status_code == 200
        assert (await ask(tokens["access_token"])).status_code == 401
