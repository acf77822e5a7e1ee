"""People who use the site while its storage fails over: each has a session, and everything they are told is kept."""

import asyncio
import itertools
import time
from dataclasses import dataclass, field

from perf.failover.history import NEVER, History, Operation
from perf.faults.checker import generation_of
from perf.http_client import Connection, Reply
from perf.nodes.site import Node, Site
from perf.nodes.watch import UNAVAILABLE, Answers, Walkers
from perf.rig import seed

PEOPLE = 8
BOUND_S = 5.0  # IRONAUTH_L1_MAX_STALE_S as it is by default
WATCHED_S = 2.0  # beyond the bound
THINK_S = 0.03  # nginx takes 100 requests a second of each address
RETRY_S = 0.25
SIGN_OUT_EVERY = 25  # turns, of three requests each
OK, NO_CONTENT, REFUSED = 200, 204, 401


@dataclass
class Seen:
    """What people saw, apart from the histories of their sessions.

    Attributes:
        committed: When each refresh that was answered by 200 was sent, and answered; seconds of the monotonic clock.
        latest_s: Longest life of a token after its sign-out, at either node.
        forks: Refresh tokens that were exchanged for two different ones.
        lost: Requests without an answer.
        sign_outs: Those that were acknowledged.
        flows: Sign-ins at an application that went all the way, from the authorization request to a refresh.
    """

    committed: list[tuple[float, float]] = field(default_factory=list)
    latest_s: float = 0.0
    forks: int = 0
    lost: int = 0
    sign_outs: int = 0
    flows: int = 0


class Crowd(Walkers):
    """Eight people who renew, look and leave; nothing that they are told is thrown away."""

    people = PEOPLE

    def __init__(self, site: Site, history: History) -> None:
        super().__init__()
        self.seen = Seen()
        self._site = site
        self._history = history
        self._watching: set[asyncio.Task[None]] = set()

    async def watched(self) -> None:
        """Return when every token that was signed out has been tried to its end."""
        await asyncio.gather(*self._watching)

    async def _walk(self, number: int) -> None:
        serial, session = self._site.person()
        refresh, sid = session.refresh_token, session.session_id
        self._opened(number, sid, refresh)
        async with self._site.through_nginx(number) as client, self._site.through_nginx(number) as other:
            for turn in itertools.count(1):
                if self._done:
                    return
                both = turn % 7 == 0
                tries = [self._renew(number, client, sid, refresh)]
                tries += [self._renew(number + PEOPLE, other, sid, refresh)] if both else []
                answers = [answer for answer in await asyncio.gather(*tries) if answer is not None]
                await asyncio.sleep(THINK_S)
                made = [answer.json() for answer in answers if answer.status == OK]
                if len({one["refresh_token"] for one in made}) > 1:
                    self.seen.forks += 1
                if made:
                    refresh, access = made[0]["refresh_token"], made[0]["access_token"]
                    await self._ask(client, "GET", "/access/me", token=access, allowed=(OK, UNAVAILABLE))
                    if turn % SIGN_OUT_EVERY:
                        continue
                    if await self._left(number, client, sid, refresh, access):
                        sid, refresh = await self._arrived(number, client, serial)
                elif any(answer.status == REFUSED for answer in answers):  # judged with its history
                    sid, refresh = await self._arrived(number, client, serial)
                else:
                    await asyncio.sleep(RETRY_S)
                if not refresh:
                    return

    async def _renew(self, number: int, client: Connection, sid: str, refresh: str) -> Reply | None:
        began, sent = time.monotonic_ns(), time.monotonic()
        body: dict[str, object] = {"refresh_token": refresh}
        answer = await self._ask(client, "POST", "/access/refresh", body=body, allowed=(OK, REFUSED, UNAVAILABLE))
        self._note(number, sid, "refresh", generation_of(refresh), answer, began)
        if answer is not None and answer.status == OK:
            self.seen.committed.append((sent, time.monotonic()))
        return answer

    async def _left(self, number: int, client: Connection, sid: str, refresh: str, access: str) -> bool:
        """Sign out, as often as it takes; False where the laboratory ends first."""
        while not self._done:
            began = time.monotonic_ns()
            answer = await self._ask(
                client, "POST", "/access/logout", token=access, allowed=(NO_CONTENT, REFUSED, UNAVAILABLE)
            )
            self._note(number, sid, "end", generation_of(refresh), answer, began)
            if answer is not None and answer.status in (NO_CONTENT, REFUSED):
                if answer.status == NO_CONTENT:
                    self.seen.sign_outs += 1
                    self._watch(access)
                    # The strongest question about a sign-out: its refresh token is asked for a successor.
                    await self._renew(number, client, sid, refresh)
                return True
            await asyncio.sleep(RETRY_S)
        return False

    async def _arrived(self, number: int, client: Connection, serial: int) -> tuple[str, str]:
        """Sign in, as often as it takes; empty where the laboratory ends first."""
        body: dict[str, object] = {"email": seed.email_of(serial), "password": seed.PASSWORD}
        while not self._done:
            answer = await self._ask(client, "POST", "/access/signin", body=body, allowed=(OK, UNAVAILABLE))
            if answer is not None and answer.status == OK:
                made = answer.json()
                self._opened(number, made["session_id"], made["refresh_token"])
                return made["session_id"], made["refresh_token"]
            await asyncio.sleep(RETRY_S)
        return "", ""

    def _opened(self, number: int, sid: str, refresh: str) -> None:
        now = time.monotonic_ns()
        self._history.note(Operation(sid, number, "open", generation_of(refresh), "ok", now, now))

    def _note(self, number: int, sid: str, act: str, generation: int, answer: Reply | None, began: int) -> None:
        outcome = {OK: "ok", NO_CONTENT: "ok", REFUSED: "refused"}.get(answer.status if answer else 0, "unknown")
        done = NEVER if outcome == "unknown" else time.monotonic_ns()
        self._history.note(Operation(sid, number, act, generation, outcome, began, done))

    async def _ask(
        self, client: Connection, method: str, path: str, *, token: str = "", body: dict[str, object] | None = None,
        allowed: tuple[int, ...],
    ) -> Reply | None:  # fmt: skip
        await asyncio.sleep(THINK_S)
        answer = await self.answers.ask(client, method, path, token=token, body=body, allowed=allowed)
        self.seen.lost += answer is None
        return answer

    def _watch(self, token: str) -> None:
        for node in self._site.nodes:
            task = asyncio.create_task(self._refused(node, token))
            self._watching.add(task)
            task.add_done_callback(self._watching.discard)

    async def _refused(self, node: Node, token: str) -> None:
        """Try a token that was signed out until past the bound."""
        began, answers = time.monotonic(), Answers()
        async with node.connection() as client:
            while (late := time.monotonic() - began) < BOUND_S + WATCHED_S:
                answer = await answers.ask(client, "GET", "/access/me", token=token, allowed=(OK, REFUSED, UNAVAILABLE))
                if answer is not None and answer.status == OK:
                    self.seen.latest_s = max(self.seen.latest_s, late)
                await asyncio.sleep(0.1)
