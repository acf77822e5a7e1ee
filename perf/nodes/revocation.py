"""What ended at one node is refused at the other (sign-out, password, disabled account); two renewals at once."""

import asyncio
import statistics
from contextlib import AsyncExitStack

from perf.nodes.site import Site
from perf.nodes.watch import Answers, Pair, make_known, renew, seconds_until_refused, sign_in
from perf.rig import seed

AT_ONCE = 5  # people at a time: two cores serve them, both nodes and the storage
LIMIT_S = 15.0  # beyond, a token is taken for good: the promise is far below
SIGN_OUT, PASSWORD, DISABLE = "sign-out", "new password", "account disabled"
_NEW_PASSWORD = "Orbital-marmalade-10-kettles"  # noqa: S105 - of people who exist only here


class Lags(list[float]):
    """Seconds for which the other node took what was ended, one for each person."""

    @property
    def p50_ms(self) -> float:
        """The median, in ms."""
        return statistics.median(self) * 1000

    @property
    def longest_ms(self) -> float:
        """The longest, in ms."""
        return max(self) * 1000


async def measure(site: Site, answers: Answers, act: str, count: int) -> Lags:
    """End the sessions of ``count`` people at node A, each known to node B, and time how long B goes on.

    Raises:
        Wrong: B took one for longer than ``LIMIT_S``, or somebody could not sign in.
    """
    lags, gate = Lags(), asyncio.Semaphore(AT_ONCE)
    async with AsyncExitStack() as stack:
        staff = await _staff(site, answers, stack) if act == DISABLE else ""

        async def one() -> None:
            async with gate:
                lags.append(await _lag(site, answers, act, staff))

        await asyncio.gather(*(one() for _ in range(count)))
    return lags


async def _lag(site: Site, answers: Answers, act: str, staff: str) -> float:
    number, session = site.person()
    async with site.direct(site.a) as here, site.direct(site.b) as there:
        pair = await renew(answers, here, session.refresh_token)
        await make_known(answers, there, pair.access)
        if act == SIGN_OUT:
            await answers.ask(here, "POST", "/access/logout", token=pair.access, allowed=(204,))
        elif act == PASSWORD:
            # Anybody who changes it keeps their own session: it is another one that has to end.
            other = await sign_in(answers, here, seed.email_of(number), seed.PASSWORD)
            body: dict[str, object] = {"current_password": seed.PASSWORD, "new_password": _NEW_PASSWORD}
            await answers.ask(here, "POST", "/access/password", token=other.access, body=body, allowed=(200,))
        else:
            path = f"/users/{session.user_id}"
            await answers.ask(here, "PATCH", path, token=staff, body={"is_active": False})
        return await seconds_until_refused(answers, there, pair.access, limit_s=LIMIT_S)


async def _staff(site: Site, answers: Answers, stack: AsyncExitStack) -> str:
    """Sign the superuser in: what disables people needs a proof of the last ten minutes."""
    client = await stack.enter_async_context(site.direct(site.a))
    return (await sign_in(answers, client, seed.email_of(0), seed.PASSWORD)).access


async def renew_at_both(site: Site, answers: Answers, count: int) -> int:
    """Trade the same refresh token in at both nodes at once, ``count`` times over; return how many had two successors.

    Raises:
        Wrong: a token was refused.
    """
    forks = 0
    _, session = site.person()
    refresh, before = session.refresh_token, site.generation(session.session_id)
    async with site.direct(site.a) as here, site.direct(site.b) as there:
        for _ in range(count):
            pairs: tuple[Pair, Pair] = await asyncio.gather(
                renew(answers, here, refresh), renew(answers, there, refresh)
            )
            forks += pairs[0].refresh != pairs[1].refresh
            refresh = pairs[0].refresh
    return forks + abs(site.generation(session.session_id) - before - count)
