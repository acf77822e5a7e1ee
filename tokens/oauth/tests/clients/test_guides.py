"""Guides of the site for other languages and programs: what they show is built, run, and asked."""

import asyncio
import json
import os
import secrets
import shutil
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings

from conftest import PASSWORD
from ironauth import settings_test
from ironauth.tests.docs.blocks import Guide
from ironauth.tests.docs.shell import commands, found, running, shell
from tokens.oauth.tests.clients.mock_oauth2 import installed
from tokens.oauth.tests.clients.program import BUILD_S, GO, SPRING
from tokens.oauth.tests.clients.provider import Provider
from tokens.tests.browser import SIGNIN

pytestmark = pytest.mark.django_db(transaction=True)

CREATE = ".venv/bin/python manage.py oauth_client create"
ISSUER = "https://id.example.com"


async def ran(script: str, folder: Path, **variables: str) -> str:
    """Run a block beside the event loop, which has servers to answer."""
    return await asyncio.to_thread(shell, script, folder, **variables)


async def token_of(provider: Provider, folder: Path) -> str:
    """Walk through the guide of programs that act for themselves; return the token that it leads to."""
    with Guide("docs/guides/server-to-server.md", (ISSUER, provider.issuer)) as guide:
        await sync_to_async(commands)(guide.block(CREATE), folder)
        said = await ran(guide.block("value()") + 'echo "$TOKEN"', folder)
        answer = json.loads((folder / "token.json").read_text())
        assert answer.keys() == json.loads(guide.block('{"access_token"')).keys()
        assert (answer["scope"], answer["expires_in"], said) == ("orders:read", 600, f"{answer['access_token']}\n")
        guide.write(folder, "reports.py")
    made = json.loads((folder / "reports.json").read_text())
    own = {"CLIENT_ID": made["client_id"], "CLIENT_SECRET": made["client_secret"], "ISSUER": provider.issuer}
    keys = f"{provider.issuer}/.well-known/jwks.json"
    assert await ran("python reports.py", folder, API=keys, **own) == "200\n"
    return str(answer["access_token"])


async def service(url: str, good: str) -> None:
    """Assert that a service lets a good token in, and nothing else."""
    async with httpx.AsyncClient(timeout=10) as asking:
        assert (await asking.get(url, headers={"Authorization": f"Bearer {good}"})).status_code == 200
        for header in ("", "Bearer x", f"Bearer {good[:-4]}AAAA", f"Basic {good}"):
            answer = await asking.get(url, headers={"Authorization": header} if header else {})
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")


async def go_service(provider: Provider, good: str, tmp_path: Path) -> None:
    """It is built with the pinned module, and answers a token of the guide before it."""
    go = found("go")
    port = settings_test._free_port()
    changes = ((ISSUER, provider.issuer), ("8001", str(port)))
    with Guide("docs/guides/go.md", *changes) as guide:
        guide.write(tmp_path, "main.go")
        for name in ("go.mod", "go.sum"):
            shutil.copy(GO / name, tmp_path)
        environment = {
            **os.environ,
            "GOTOOLCHAIN": "local",
            "GOFLAGS": "-mod=mod",
            "CGO_ENABLED": "0",
            "GOPROXY": "off",
        }
        built = await asyncio.to_thread(
            subprocess.run, [go, "build", "-trimpath", "-o", "orders", "."], cwd=tmp_path, env=environment,
            timeout=BUILD_S, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert built.returncode == 0, built.stderr
        with running(guide.block("ISSUER=").replace("go run .", "./orders"), tmp_path, port):
            said = await ran(guide.block("curl"), tmp_path, TOKEN=good)
            await service(f"http://127.0.0.1:{port}/orders", good)
    assert list(json.loads(said)) == ["person"]


async def mobile_application(provider: Provider, tmp_path: Path) -> None:
    """The client of the page signs a person in by the requests of the page, and gets the next refresh token."""
    found("openssl")
    with Guide("docs/guides/mobile.md", (ISSUER, provider.issuer)) as guide:
        await sync_to_async(commands)(guide.block(CREATE), tmp_path)
        app = json.loads((tmp_path / "app.json").read_text())["client_id"]
        own = {"CLIENT_ID": app, "VERIFIER": secrets.token_urlsafe(48), "STATE": "s-1"}
        address = await ran(guide.block("CHALLENGE="), tmp_path, **own)
        back = urlsplit(await provider.person.visit(address.strip()))
        answer = parse_qs(back.query)
        assert (back.scheme, back.path, answer["state"]) == ("com.example.shop", "/callback", ["s-1"])
        await ran(guide.block("curl -sS -d grant_type=authorization_code"), tmp_path, CODE=answer["code"][0], **own)
        tokens = json.loads((tmp_path / "tokens.json").read_text())
        renewed = json.loads(await ran(guide.block("REFRESH="), tmp_path, **own))
    assert tokens["id_token"].count(".") == 2
    assert tokens["refresh_token"] != renewed["refresh_token"]


class Application(BaseHTTPRequestHandler):
    """Says who asks, as nginx told it."""

    def do_GET(self) -> None:
        said = self.headers.get("X-Auth-Subject", "nobody").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_arguments: object) -> None:
        """Stay quiet."""


MAIN = """\
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log warn; {user}
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    include {folder}/app.conf;
}}
"""


async def nginx(provider: Provider, tmp_path: Path) -> None:
    """The server of the page, with the sample it includes, passes on who asks, and nobody without a token."""
    found("openssl")
    program = f"{found('nginx')} -p {tmp_path} -e {tmp_path}/error.log -c {tmp_path}/nginx.conf"
    port, me = settings_test._free_port(), await signed_in(provider)
    application = ThreadingHTTPServer(("127.0.0.1", 0), Application)
    Thread(target=application.serve_forever, daemon=True).start()
    sample = (settings.BASE_DIR / "deploy" / "samples" / "nginx-forward-auth.conf").read_text(encoding="utf-8")
    for written, here in (
        ("http://127.0.0.1:8000/", f"{provider.issuer}/"),
        ("127.0.0.1:3000", f"127.0.0.1:{application.server_port}"),
        ("Host id.example.com", "Host 127.0.0.1"),
    ):
        assert written in sample
        sample = sample.replace(written, here)
    (tmp_path / "nginx-forward-auth.conf").write_text(sample, encoding="utf-8")
    user = "user root;" if os.geteuid() == 0 else ""  # its workers could not read this folder otherwise
    (tmp_path / "nginx.conf").write_text(MAIN.format(folder=tmp_path, user=user), encoding="utf-8")
    certificate = (
        "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=app.example.com -keyout privkey.pem -out fullchain.pem"
    )
    await ran(f"{certificate} 2>&1", tmp_path)
    changes = (("/etc/nginx/app/", f"{tmp_path}/"), ("443 ssl", f"127.0.0.1:{port} ssl"), ("nginx -", f"{program} -"))
    try:
        with Guide("docs/guides/nginx.md", *changes) as guide:
            guide.write(tmp_path, "app.conf")
            with running(f"exec {program}", tmp_path, port):
                await ran(guide.block("nginx -t").replace(" -t", " -t -q"), tmp_path)
                async with httpx.AsyncClient(base_url=f"https://127.0.0.1:{port}", verify=False) as asking:  # noqa: S501 - made here
                    answer = await asking.get("/", headers={"Authorization": f"Bearer {me['access_token']}"})
                    assert (answer.status_code, answer.text) == (200, me["id"])
                    lie = await asking.get("/", headers={"X-Auth-Subject": me["id"]})
                    assert lie.status_code == 401
    finally:
        application.shutdown()
        application.server_close()


async def signed_in(provider: Provider) -> dict[str, str]:
    """Return the person's id and access token."""
    person = {"email": provider.person.email, "password": PASSWORD}
    tokens = (await provider.person.browser.post(SIGNIN, json=person)).json()
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    me = (await provider.person.browser.get("/api/v1/access/me", headers=bearer)).json()
    return {"access_token": tokens["access_token"], "id": me["id"]}


async def spring(provider: Provider, good: str, folder: Path) -> None:
    """Compiled with the very libraries its pom.xml names, it lets a good token in and no other."""
    javac, java, port = found("javac"), found("java"), settings_test._free_port()
    libraries = await asyncio.to_thread(installed, ".ci/find-spring")
    resources = "src/main/resources/application.yaml", "src/main/java/orders/Orders.java"
    with Guide("docs/guides/spring.md", (ISSUER, provider.issuer), ("8001", str(port))) as guide:
        assert guide.file("pom.xml") == (SPRING / "pom.xml").read_text(encoding="utf-8")
        guide.write(folder, *resources)
        await sync_to_async(commands)(guide.block(CREATE), folder)
        made = json.loads((folder / "orders.json").read_text())
        compiled = f"{javac} -parameters -cp '{libraries}/*' -d classes {resources[1]}\ncp {resources[0]} classes"
        await ran(compiled, folder)
        boot = f"exec {java} -XX:TieredStopAtLevel=1 -Xmx256m -cp 'classes:{libraries}/*' orders.Orders"
        start = guide.block("ISSUER=").replace("mvn -q spring-boot:run", f'sh -c "{boot}"')
        own = {"CLIENT_ID": made["client_id"], "CLIENT_SECRET": made["client_secret"]}
        with running(start, folder, port, **own):
            said = await ran(guide.block("curl"), folder, TOKEN=good)
            await service(f"http://127.0.0.1:{port}/orders", good)
            async with httpx.AsyncClient(timeout=10) as asking:
                me = {"Authorization": f"Bearer {(await signed_in(provider))['access_token']}"}
                assert (await asking.get(f"http://127.0.0.1:{port}/orders", headers=me)).status_code == 403
        nowhere = start.replace(provider.issuer, f"http://127.0.0.1:{settings_test._free_port()}")
        with running(nowhere, folder, port, **own):
            async with httpx.AsyncClient(timeout=10) as asking:
                assert (await asking.get(f"http://127.0.0.1:{port}/orders", headers=me)).status_code == 500
    assert list(json.loads(said)) == ["person"]


async def test_guides(provider: Provider, tmp_path: Path) -> None:
    """Server to server, Go and Spring, mobile, nginx; one test, because each start of a server takes seconds."""
    for name in ("robot", "go", "spring", "mobile", "nginx"):
        (tmp_path / name).mkdir()
    good = await token_of(provider, tmp_path / "robot")
    await go_service(provider, good, tmp_path / "go")
    await mobile_application(provider, tmp_path / "mobile")
    await nginx(provider, tmp_path / "nginx")
    await spring(provider, good, tmp_path / "spring")
