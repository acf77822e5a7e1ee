"""People who use a server all the time, while something is done to its database."""

import asyncio
import itertools
import secrets

from perf.http_client import Connection
from perf.nodes.watch import Answers, Pair, Walkers, Wrong, renew, sign_in
from perf.rig import seed

PEOPLE = 4
THINK_S = 0.03
SIGN_IN_EVERY = 5  # turns


class Traffic(Walkers):
    """Four people at one server."""

    people = PEOPLE

    def __init__(self, base: str) -> None:
        super().__init__()
        self._base = base

    async def _walk(self, number: int) -> None:
        email = new_email()
        async with client(self._base) as http:
            try:
                await sign_up(self.answers, http, email)
                pair = await sign_in(self.answers, http, email, seed.PASSWORD)
                for turn in itertools.count(1):
                    pair = await self._turn(http, pair)
                    if turn % SIGN_IN_EVERY == 0:
                        await self.answers.ask(http, "POST", "/access/logout", token=pair.access, allowed=(204,))
                        pair = await sign_in(self.answers, http, email, seed.PASSWORD)
                    if self._done:
                        return
            except Wrong:
                return  # noted with the answer

    async def _turn(self, http: Connection, pair: Pair) -> Pair:
        """Read, list, change one's name, and renew."""
        for path in ("/access/me", "/access/sessions"):
            await self.answers.ask(http, "GET", path, token=pair.access)
            await asyncio.sleep(THINK_S)
        await self.answers.ask(http, "PATCH", "/access/me", token=pair.access, body={"name": secrets.token_hex(4)})
        await asyncio.sleep(THINK_S)
        return await renew(self.answers, http, pair.refresh)


def client(base: str) -> Connection:
    """Return a client on one connection."""
    return Connection(("127.0.0.1", int(base.rpartition(":")[2])), patience_s=30)


def new_email() -> str:
    """Return an address nobody has."""
    return f"{secrets.token_hex(8)}@upgrade.example"


async def sign_up(answers: Answers, http: Connection, email: str) -> None:
    """Make an account."""
    body: dict[str, object] = {"email": email, "password": seed.PASSWORD, "name": "Mia"}
    await answers.ask(http, "POST", "/access/signup", body=body, allowed=(201,))
