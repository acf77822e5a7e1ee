"""Keys rotate while applications verify tokens all the time, each with a copy of the key set of its own."""

import asyncio
import json
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from tokens.clients.models import OAuthClient
from tokens.keys.key_set import Family
from tokens.keys.units import RotationRefusedError, rotate
from tokens.oauth.tests.clients.program import GO, JAVASCRIPT, go_program, node, start, tell
from tokens.oauth.tests.clients.provider import Provider
from tokens.oauth.tests.material import REDIRECT_URI
from tokens.oauth.tests.walk import CHALLENGE, VERIFIER

pytestmark = pytest.mark.django_db(transaction=True)

MAX_AGE_S = 1  # of the key set: applications look again that often, and rotations need not wait for longer
LONGEST_S = 100.0  # on a machine with everything else to do, where it took 39; alone it takes about 12
PAUSE_S = 0.1  # between rounds: what waits for the clock must not keep two cores busy meanwhile
ROTATIONS = 2
AFTERWARDS_S = 6.0  # IRONAUTH_L1_MAX_STALE_S and more: every worker has followed


@pytest.fixture
def server_settings(settings: Settings) -> dict[str, str]:
    """A key set that applications may keep for a second, to the server and to this process, which rotates."""
    settings.IRONAUTH_JWKS_MAX_AGE_S = MAX_AGE_S
    return {"IRONAUTH_JWKS_MAX_AGE_S": str(MAX_AGE_S)}


@dataclass
class Verifiers:
    """The libraries by name, what each said that was not right, and how many tokens of which keys they saw."""

    provider: Provider
    keys: jwt.PyJWKClient
    programs: dict[str, Process]
    failures: list[str] = field(default_factory=list)
    kids: set[str] = field(default_factory=set)
    verified: int = 0

    async def verify(self, token: str) -> None:
        """Have every library verify a token."""
        header = jwt.get_unverified_header(token)
        self.kids.add(header["kid"])
        try:
            key = await asyncio.to_thread(self.keys.get_signing_key_from_jwt, token)
            jwt.decode(token, key, algorithms=[header["alg"]], options={"verify_aud": False})
        except jwt.PyJWTError as error:
            self.failures.append(f"PyJWT: {error}")
        for name, program in self.programs.items():
            await tell(program, token)
            assert program.stdout is not None
            said = json.loads(await program.stdout.readline())
            if said:
                self.failures.append(f"{name}: {said}")
        self.verified += 1


@asynccontextmanager
async def verifiers(provider: Provider, go: Path | None) -> AsyncIterator[Verifiers]:
    """Start the libraries' programs, each with the key set it finds now."""
    jwks = f"{provider.issuer}/.well-known/jwks.json"
    given = {"issuer": provider.issuer, "jwks_uri": jwks, "max_age_s": MAX_AGE_S}
    programs = {"jose": await start(node(), JAVASCRIPT / "poll.mjs")}
    if go is not None:
        programs["go-oidc"] = await start(go, "poll")
    try:
        for program in programs.values():
            await tell(program, given)
        yield Verifiers(provider, jwt.PyJWKClient(jwks, lifespan=MAX_AGE_S), programs)
    finally:
        for program in programs.values():
            assert program.stdin is not None
            program.stdin.close()  # which ends it
            await program.wait()
    assert {program.returncode for program in programs.values()} == {0}


class Application:
    """A client that never stops refreshing; ``tokens``: the latest."""

    def __init__(self, provider: Provider, client: dict[str, Any]) -> None:
        self.provider, self.client = provider, client
        self.tokens: dict[str, Any] = {}

    async def ask(self, **parameters: str) -> None:
        """Get tokens."""
        answer = await self.provider.person.browser.post("/oauth/token", data={**self.client, **parameters})
        assert answer.status_code == 200, answer.text
        self.tokens = answer.json()

    async def sign_in(self) -> None:
        """Have the person sign in."""
        query = f"client_id={self.client['client_id']}&redirect_uri={REDIRECT_URI}&response_type=code"
        challenge = f"code_challenge={CHALLENGE}&code_challenge_method=S256"
        callback = await self.provider.person.visit(
            f"/oauth/authorize?{query}&{challenge}&scope=openid+offline_access&nonce=1"
        )
        code = callback.partition("code=")[2].partition("&")[0]
        await self.ask(grant_type="authorization_code", code=code, redirect_uri=REDIRECT_URI, code_verifier=VERIFIER)

    async def refresh(self) -> tuple[str, str]:
        """Return a new access token and a new ID token."""
        await self.ask(grant_type="refresh_token", refresh_token=self.tokens["refresh_token"])
        return self.tokens["access_token"], self.tokens["id_token"]


async def test_nobody_notices_a_rotation(provider: Provider, tmp_path: Path) -> None:
    """Security-bar 33: PyJWT, jose, go-oidc and our own two workers verify every token, old and new, all the time."""
    go = await asyncio.to_thread(go_if_there, tmp_path)
    applications = [
        Application(provider, await provider.client()),
        Application(provider, await provider.client(id_token_alg=OAuthClient.IdTokenAlg.ES256)),
    ]
    for application in applications:
        await application.sign_in()
    async with asyncio.timeout(LONGEST_S), verifiers(provider, go) as all_of_them:
        first = applications[0].tokens["access_token"]
        for application in applications:
            await all_of_them.verify(application.tokens["id_token"])
        rotation = asyncio.create_task(rotated(ROTATIONS))
        while not rotation.done():
            for application in applications:
                for token in await application.refresh():
                    await all_of_them.verify(token)
                await at_home(provider, application.tokens["access_token"])
            await all_of_them.verify(first)
            await at_home(provider, first)
            await asyncio.sleep(PAUSE_S)
        await rotation
    assert all_of_them.failures == []
    assert len(all_of_them.kids) == 2 * (ROTATIONS + 1), "of both families: each key that signed"


def go_if_there(folder: Path) -> Path | None:
    """Return the program with go-oidc, None where there is no Go: the others are asked all the same."""
    try:
        return go_program(GO, folder)
    except pytest.skip.Exception:
        return None


async def at_home(provider: Provider, token: str) -> None:
    """Ask a worker, whichever it is: it verifies by its own copy of the keys."""
    answer = await provider.person.browser.get("/oauth/userinfo", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200, answer.text


async def rotated(times: int) -> None:
    """Rotate the keys of both families as often as that, each time as soon as the product lets us; wait for workers."""
    for _ in range(times):
        for family in (Family.ED25519, Family.ES256):
            await soon(family)
    await asyncio.sleep(AFTERWARDS_S)


async def soon(family: Family) -> None:
    """Rotate as soon as every application can know the next key."""
    deadline = time.monotonic() + LONGEST_S
    while True:
        try:
            await sync_to_async(rotate)(family)
        except RotationRefusedError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        else:
            return
