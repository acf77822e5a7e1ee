"""What began at an older release goes on at this one, after its database was migrated with nothing served."""

from typing import NamedTuple

from perf.nodes.watch import Answers, Pair, Wrong, renew, sign_in
from perf.previous import beside
from perf.previous.traffic import client, new_email, sign_up
from perf.rig import seed

PEOPLE = 3


class Begun(NamedTuple):
    """A person and the session that the older release opened."""

    email: str
    pair: Pair


async def begin(answers: Answers, base: str) -> list[Begun]:
    """Sign people up and in at the older release.

    Raises:
        Wrong: It refused somebody.
    """
    begun = []
    answers.during = "at the older release"
    async with client(base) as http:
        for _ in range(PEOPLE):
            email = new_email()
            await sign_up(answers, http, email)
            pair = await sign_in(answers, http, email, seed.PASSWORD)
            begun.append(Begun(email, await renew(answers, http, pair.refresh)))
    return begun


async def go_on(answers: Answers, base: str, begun: list[Begun], clients: dict[str, dict[str, str]]) -> list[str]:
    """Use what was begun at this release: access and refresh tokens, passwords, clients; return what failed."""
    failed = []
    async with client(base) as http:
        for one in begun:
            try:
                answers.during = "with a token of the older release"
                await answers.ask(http, "GET", "/access/me", token=one.pair.access)
                pair = await renew(answers, http, one.pair.refresh)
                answers.during = "with a session of the older release"
                await answers.ask(http, "GET", "/access/sessions", token=pair.access)
                answers.during = "with a password of the older release"
                pair = await sign_in(answers, http, one.email, seed.PASSWORD)
                await answers.ask(http, "POST", "/access/logout", token=pair.access, allowed=(204,))
            except Wrong as error:
                failed.append(f"{answers.during}: {error}")
        for made in clients.values():
            answers.during = "a client made by the older release"
            await beside.machine(answers, made, http, http)
    return [*answers.wrong, *failed]
