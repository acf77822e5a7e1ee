"""An open-loop HTTP/1.1 load generator: requests are due at fixed times, however slowly answers come.

A closed loop stops asking while the server stalls and so measures one slow answer where clients would have seen many
(coordinated omission). Here every latency counts from the moment the request was *due*: the n-th is due n / rate
seconds after the start, the connection free for longest sends it, and when none is free it waits, and that counts.

The generator must not be what is measured. It runs on plain asyncio over ``select()``, whose timeouts are in
microseconds (epoll's, and so uvloop's, in milliseconds), and where it may (root, CAP_SYS_NICE) at the lowest real-time
priority: as if it were on another machine, it never waits for a time slice behind the server's own threads, and takes
about 0.2 ms of CPU time for each request. How late it noticed that a request was due is measured and reported: its lag.

It only talks to loopback addresses and always stops by itself. ``python -m perf.load URL --rate 200`` is the command.
"""

import asyncio
import gc
import os
import selectors
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from perf.http_client import refuse_remote
from perf.load.closed_loop import MAX_SECONDS
from perf.load.open_loop import FixedRateResult, Run
from perf.load.sources import Source

DRAIN_S = 10.0  # how long answers still missing after the last request was due are waited for
MAX_CONNECTIONS = 900  # select() takes file descriptors below 1,024
MAX_RATE = 20_000.0  # requests/s; far above what one Python process can send: its lag shows that long before


async def drive_fixed(
    address: tuple[str, int],
    sources: Sequence[Source],
    *,
    rate: float,
    seconds: float,
    ramp_s: float = 0.0,
    drain_s: float = DRAIN_S,
) -> FixedRateResult:
    """Send ``rate`` requests per second for ``ramp_s + seconds`` over one connection per source.

    Those due in the last ``seconds`` are measured. What has no answer ``drain_s`` after the last was due is a failure.

    Raises:
        ValueError: the address is not loopback, or a figure is outside of its bounds.
    """
    refuse_remote(address)
    _refuse_excess(connections=len(sources), seconds=seconds + ramp_s, rate=rate)
    result = FixedRateResult(seconds, rate)
    run = Run(address, result, ramp_s)
    if not run.total:
        raise ValueError("not one request is due in that time: raise the rate or the duration")
    run.open = len(sources)
    gc.collect()
    gc.disable()  # a collection would show up as server latency
    try:
        await asyncio.gather(*(run.connect(source) for source in sources))
        if not run.open:
            return result
        with urgent() as result.scheduling:
            run.begin()
            async with asyncio.timeout(ramp_s + seconds + drain_s):
                await run.over.wait()
    except TimeoutError:
        result.failures[f"no answer within {drain_s:.0f} s of the end"] += run.missing
    finally:
        gc.enable()
        run.end()
    return result


def _refuse_excess(*, connections: int, seconds: float, rate: float) -> None:
    """Raise ``ValueError`` for a run that is empty, or larger than this generator can or may make."""
    if not 0 < connections <= MAX_CONNECTIONS or not 0 < seconds <= MAX_SECONDS or not 0 < rate <= MAX_RATE:
        raise ValueError(
            f"give 1 to {MAX_CONNECTIONS} connections, a duration of at most {MAX_SECONDS:.0f} s, "
            f"and a rate of at most {MAX_RATE:,.0f}/s"
        )


def run_fixed(
    address: tuple[str, int], sources: Sequence[Source], *, rate: float, seconds: float, ramp_s: float = 0.0
) -> FixedRateResult:
    """Do ``drive_fixed`` on a loop whose timers are exact to microseconds."""
    with asyncio.Runner(loop_factory=precise_loop) as runner:
        return runner.run(drive_fixed(address, sources, rate=rate, seconds=seconds, ramp_s=ramp_s))


def precise_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop over ``select()``, the one call here whose timeout is not rounded to milliseconds."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


@contextmanager
def urgent() -> Iterator[str]:
    """Run the calling thread before everything of normal priority, where that is permitted; yields what came of it.

    Real-time, because a niceness only counts within a session (autogroups, sched(7)) or control group.
    """
    before = os.sched_getscheduler(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except PermissionError:
        yield "normal priority: waits behind other threads' time slices are in the latencies"
        return
    try:
        yield "real-time priority"
    finally:
        os.sched_setscheduler(0, before, os.sched_param(0))
