"""People who sign in at an OAuth client while its storage fails over: authorize, password, code for tokens, refresh."""

import asyncio
import itertools
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from perf.failover.history import NEVER, History, Operation
from perf.failover.people import OK, PEOPLE, RETRY_S, Seen
from perf.failover.site import ClusterSite
from perf.faults.checker import generation_of, session_of
from perf.http_client import Connection, Reply
from perf.load.oauth_messages import (
    Application,
    Asking,
    Tokens,
    Wrong,
    application_with,
    code_in,
    sealed_in,
    subject_in,
    tokens_in,
)
from perf.nodes.watch import UNAVAILABLE, Answers, Walkers
from perf.rig import seed

USERS: Final = 2
#: Every so many flows the code is presented twice at once, in others the refresh token.
TWICE_EVERY: Final = 4
_PAUSE_S: Final = 0.25  # between two flows; nginx takes five passwords a second of each address
_FOUND, _REFUSED = 303, 400  # RFC 6749 §5.2: invalid_grant


class _AgainError(Exception):
    """What is done by 503 or without an answer; the flow begins again."""


class Way(NamedTuple):
    """Who signs in, where, and by which connections; ``client`` is the number in the histories."""

    application: Application
    browser: Connection
    other: Connection
    client: int
    serial: int


class Users(Walkers):
    """Two people who sign in at a client, again and again, each time in a browser that nobody has seen."""

    people = USERS

    def __init__(self, site: ClusterSite, history: History, answers: Answers, seen: Seen) -> None:
        super().__init__()
        self.answers = answers
        self.seen = seen
        self._site = site
        self._client = site.client  # made here, before anybody waits for anything
        self._history = history

    async def _walk(self, number: int) -> None:
        serial, _ = self._site.person()
        place = PEOPLE + number  # nobody else comes from this address
        async with self._site.through_nginx(place) as browser, self._site.through_nginx(place) as other:
            application: Application | None = None
            for turn in itertools.count(1):
                if self._done:
                    return
                with suppress(_AgainError):
                    try:
                        application = application or await self._known(browser)
                        await self._flow(Way(application, browser, other, number + 2 * PEOPLE, serial), turn)
                    except Wrong as wrong:
                        self.answers.wrong.append(str(wrong))
                await asyncio.sleep(_PAUSE_S)

    async def _known(self, browser: Connection) -> Application:
        """Return what the client knows of the server."""
        published = await self._send(browser, "GET", "/.well-known/jwks.json")
        return application_with(published.json(), self._site.issuer, self._client)

    async def _flow(self, way: Way, turn: int) -> None:
        """Sign in, and renew once. Raises ``Wrong`` at an answer that is not right."""
        asking = Asking.anew()
        page = await self._send(way.browser, "GET", asking.target(way.application))
        form = {"request": sealed_in(page), "email": seed.email_of(way.serial), "password": seed.PASSWORD}
        fields = {
            "Cookie": "; ".join(f"{name}={value}" for name, value in page.cookies().items()),
            "Origin": way.application.issuer, "Sec-Fetch-Site": "same-origin",
        }  # fmt: skip
        answer = await self._send(way.browser, "POST", "/oauth/signin", allowed=_FOUND, form=form, fields=fields)
        grant = asking.grant(code_in(answer, state=asking.state, issuer=way.application.issuer))
        tokens, lives = await self.redeemed(way, grant, asking, twice=turn % TWICE_EVERY == 0)
        self.seen.flows += await self._renewed(way, tokens, lives=lives, twice=turn % TWICE_EVERY == 1)

    async def redeemed(self, way: Way, grant: Mapping[str, str], asking: Asking, *, twice: bool) -> tuple[Tokens, bool]:
        """Exchange the code; return the tokens, and whether their session lives for certain.

        A code that is presented twice ends the session of its first use (RFC 6749 §4.1.2).
        """
        began = time.monotonic_ns()
        answers = await self._both(way, grant, twice=twice, allowed=(OK, *((_REFUSED,) if twice else ())))
        made = [tokens_in(answer, "token") for answer in answers if answer is not None and answer.status == OK]
        self.seen.forks += len({one.refresh_token for one in made}) > 1
        if not made:
            raise _AgainError
        tokens, done = made[0], time.monotonic_ns()
        subject_in(tokens.id_token, way.application, nonce=asking.nonce)
        sid, generation = session_of(tokens.access_token), generation_of(tokens.refresh_token)
        self._history.note(Operation(sid, way.client, "open", generation, "ok", began, done))
        if twice:
            refused = any(answer is not None and answer.status == _REFUSED for answer in answers)
            outcome, ended = ("ok", done) if refused else ("unknown", NEVER)
            self._history.note(Operation(sid, way.client, "end", generation, outcome, began, ended))
        return tokens, not twice

    async def _renewed(self, way: Way, tokens: Tokens, *, lives: bool, twice: bool) -> bool:
        """Exchange the refresh token, as often as it takes; return whether it was. Its history says what may be."""
        grant = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token}
        sid, generation = session_of(tokens.access_token), generation_of(tokens.refresh_token)
        while not self._done:
            began = time.monotonic_ns()
            answers = await self._both(way, grant, twice=twice, allowed=(OK, _REFUSED))
            done, statuses = time.monotonic_ns(), [answer.status if answer else 0 for answer in answers]
            for status in statuses:
                outcome = {OK: "ok", _REFUSED: "refused"}.get(status, "unknown")
                self._history.note(
                    Operation(sid, way.client, "refresh", generation, outcome, began,
                              NEVER if outcome == "unknown" else done)
                )  # fmt: skip
            if _REFUSED in statuses:
                return False
            made = [tokens_in(one, "refresh") for one in answers if one is not None and one.status == OK]
            self.seen.forks += len({one.refresh_token for one in made}) > 1
            if lives and any(one.refresh_token == tokens.refresh_token for one in made):
                raise Wrong("refresh: the tokens of before")
            if made:
                return True
            await asyncio.sleep(RETRY_S)
        return False

    async def _both(
        self, way: Way, grant: Mapping[str, str], *, twice: bool, allowed: tuple[int, ...]
    ) -> list[Reply | None]:
        """Ask for tokens, or twice at once."""
        form, clients = {**grant, **way.application.credentials}, [way.browser, way.other][: 1 + twice]
        asked = [
            self.answers.send(client, "POST", "/oauth/token", allowed=(*allowed, UNAVAILABLE), form=form)
            for client in clients
        ]
        answers = await asyncio.gather(*asked)
        self.seen.lost += answers.count(None)
        return answers

    async def _send(
        self, client: Connection, method: str, target: str, *, allowed: int = OK, form: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> Reply:  # fmt: skip
        """Return the answer that is wanted; else the flow begins again."""
        answer = await self.answers.send(
            client, method, target, allowed=(allowed, UNAVAILABLE), form=form, fields=fields
        )
        self.seen.lost += answer is None
        if answer is None or answer.status != allowed:
            raise _AgainError
        return answer
