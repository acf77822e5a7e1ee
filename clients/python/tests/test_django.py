"""The package in a Django site: by itself with the fake issuer, and beside a live server."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from ironauth_client import Client, Config, InvalidToken

from conftest import PASSWORD
from ironauth import settings_test
from tokens.oauth.tests.clients.provider import Provider

pytestmark = pytest.mark.live

PACKAGE = Path(__file__).parents[1]
PATIENCE_S = 30.0
ORIGIN = "https://app.example.com"

type Start = Callable[..., str]


def site_environment(**changes: str) -> dict[str, str]:
    """Return an environment in which a process is the site's, not the server's."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "PYTHONPATH": str(PACKAGE), "DJANGO_SETTINGS_MODULE": "tests.site.settings", **changes}


def test_a_site_of_its_own() -> None:
    """Sign-in, back-channel logout, API and checks hold in a process with the site's settings (``site/walk*.py``)."""
    options = ["-q", "-c", os.devnull, "--rootdir", ".", "--confcutdir", "tests/site", "-p", "no:cacheprovider"]
    without = ["-p", "no:asyncio", "-p", "no:randomly", "-W", "error"]
    walks = ["tests/site/walk.py", "tests/site/walk_people.py"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *without, *walks],
        cwd=PACKAGE, env=site_environment(), timeout=120, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert " passed" in run.stdout


@pytest.fixture
def server_settings() -> dict[str, str]:
    return {"IRONAUTH_LOGOUT_NETWORKS": "127.0.0.0/8"}


@pytest.fixture
def start_site(tmp_path: Path) -> Iterator[Start]:
    """A starter of the site; ends it."""
    running: list[subprocess.Popen[bytes]] = []

    def start(port: int, **environment: str) -> str:
        env = site_environment(SITE_DATABASE=str(tmp_path / "site.sqlite3"), **environment)
        with (tmp_path / "site.log").open("wb") as log:
            command = [sys.executable, "-m", "tests.site", str(port)]
            running.append(subprocess.Popen(command, cwd=PACKAGE, env=env, stdout=log, stderr=log))
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and running[0].poll() is None:
            try:
                httpx.get(f"http://127.0.0.1:{port}/who")
            except httpx.TransportError:
                time.sleep(0.1)
            else:
                return f"http://127.0.0.1:{port}"
        raise RuntimeError((tmp_path / "site.log").read_text())

    yield start
    for process in running:
        process.terminate()
        process.wait(15)


@pytest.mark.django_db(transaction=True)
async def test_beside_a_live_server(provider: Provider, start_site: Start) -> None:
    """A person signs in to the site, and is out again once every session has ended at the server.

    An access token verifies offline, at the site's API too, and is revoked by introspection.
    """
    port = settings_test._free_port()
    client = await provider.client(
        redirect_uris=[f"{ORIGIN}/ironauth/callback/"],
        backchannel_logout_uri=f"http://127.0.0.1:{port}/ironauth/backchannel-logout/",
        resource_server=True,
    )
    told = {"SITE_ISSUER": provider.issuer, "SITE_CLIENT_ID": client["client_id"]}
    site = await asyncio.to_thread(start_site, port, **told, SITE_CLIENT_SECRET=client["client_secret"])
    headers = {"Host": "app.example.com", "X-Forwarded-Proto": "https"}
    async with httpx.AsyncClient(base_url=site, headers=headers, timeout=30) as browser:
        begun = await browser.get("/ironauth/sign-in/?next=/who")
        callback = urlsplit(await provider.person.visit(begun.headers["location"]))
        back = await browser.get(f"{callback.path}?{callback.query}")
        assert (back.status_code, back.headers.get("location")) == (302, "/who"), back.text

        async def name() -> str:
            return (await browser.get("/who")).text

        assert (await name()).startswith("ironauth-")  # the address is not verified, so it is not taken
        pair = await signed_in(provider)
        token = {"Authorization": f"Bearer {pair['access_token']}"}
        assert (await browser.get("/orders", headers=token)).status_code == 403  # known, without the scope "read"
        await asyncio.to_thread(_accepted, provider, client, pair["access_token"])
        await ended(provider, token)
        await _until(lambda: _is(name, "nobody"))
        await asyncio.to_thread(_refused, provider, client, pair["access_token"])


async def signed_in(provider: Provider) -> dict[str, str]:
    body = {"email": provider.person.email, "password": PASSWORD}
    async with httpx.AsyncClient(base_url=provider.issuer, timeout=30) as http:
        answer = await http.post("/api/v1/access/signin", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def ended(provider: Provider, token: dict[str, str]) -> None:
    async with httpx.AsyncClient(base_url=provider.issuer, timeout=30) as http:
        assert (await http.post("/api/v1/access/logout-all", headers=token)).status_code == 204


async def _is(asked: Callable[[], Awaitable[str]], expected: str) -> bool:
    return await asked() == expected


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not await holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)


def _verifier(provider: Provider, client: dict[str, str]) -> Client:
    known, secret = client["client_id"], client["client_secret"]
    return Client(
        Config(issuer=provider.issuer, client_id=known, client_secret=secret, introspection_s=0, timeout_s=30)
    )


def _accepted(provider: Provider, client: dict[str, str], token: str) -> None:
    """Verify a good token offline and by introspection."""
    with _verifier(provider, client) as verifier:
        assert verifier.verify(token, revocation=True) == verifier.verify(token)
        with pytest.raises(InvalidToken):
            verifier.verify(f"{token[:-8]}AAAAAAAA")


def _refused(provider: Provider, client: dict[str, str], token: str) -> None:
    """See the revocation by introspection, within the server's own bound; offline the token lives on."""
    with _verifier(provider, client) as verifier:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                verifier.verify(token, revocation=True)
            except InvalidToken as error:
                assert "revoked" in str(error)  # noqa: PT017 - the loop waits for it
                break
            assert time.monotonic() < deadline
            time.sleep(0.1)
        verifier.verify(token)
