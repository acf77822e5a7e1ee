"""An open-loop HTTP/1.1 load generator: requests are due at fixed times, however slowly answers come.

A closed loop stops asking while the server stalls and so measures one slow answer where clients would have seen many
(coordinated omission). Here every latency counts from the moment the request was *due*: the n-th is due n / rate
seconds after the start, the connection free for longest sends it, and when none is free it waits, and that counts.

The generator must not be what is measured. It runs on plain asyncio over ``select()``, whose timeouts are in
microseconds (epoll's, and so uvloop's, in milliseconds), and where it may (root, CAP_SYS_NICE) at the lowest real-time
priority: as if it were on another machine, it never waits for a time slice behind the server's own threads, and takes
about 0.2 ms of CPU time for each request. How late it noticed that a request was due is measured and reported: its lag.

It only talks to loopback addresses and always stops by itself:
``python -m perf.fixed_rate http://127.0.0.1:8000/ping --rate 200 -d 10``.
"""

import argparse
import asyncio
import gc
import ipaddress
import os
import selectors
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

from perf.load import MAX_SECONDS
from perf.open_loop import FixedRateResult, Run
from perf.sources import Constant, Source, get
from perf.summary import percentile_ms

DRAIN_S = 10.0  # how long answers still missing after the last request was due are waited for
MAX_CONNECTIONS = 900  # select() takes file descriptors below 1,024
MAX_RATE = 20_000.0  # requests/s; far above what one Python process can send: its lag says so long before
LAG_MS = 1.0  # a generator later than this in 1 % of its requests is reported: it measures itself


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
    if not ipaddress.ip_address(address[0]).is_loopback:
        raise ValueError(f"{address[0]} is not a loopback address: this load generator only measures its own machine")
    if not 0 < len(sources) <= MAX_CONNECTIONS or not 0 < seconds + ramp_s <= MAX_SECONDS or not 0 < rate <= MAX_RATE:
        raise ValueError(
            f"give 1 to {MAX_CONNECTIONS} connections, a duration of at most {MAX_SECONDS:.0f} s, "
            f"and a rate of at most {MAX_RATE:,.0f}/s"
        )
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
        run.over.set()
        for connection in run.connections.copy():
            connection.abandon()
    return result


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


def describe(result: FixedRateResult) -> list[str]:
    """Say what a run saw, in lines for people."""
    counts = f"{len(result.latencies):,} accepted, {len(result.shed):,} shed"
    failures = dict(result.failures) or "none"
    lines = [f"{result.rate:,g} requests/s for {result.seconds:g} s: {counts}, failures: {failures}"]
    figures = {
        "from due": result.latencies,
        "from sent": result.services,
        "503 from due": result.shed,
        "generator's lag": result.lags,
    }
    for name, values in figures.items():
        if values:
            ordered = sorted(values)
            points = ", ".join(f"p{percent:g} {percentile_ms(ordered, percent):.3f}" for percent in (50, 99, 99.9))
            lines.append(f"{name + ':':16} {points}, max {ordered[-1] / 1e6:.3f} ms")
    if result.no_retry_after:
        lines.append(f"{result.no_retry_after:,} answers 503 without Retry-After")
    if result.waited:
        lines.append(f"{result.waited:,} requests found no free connection: more of them (-c) if that was not meant")
    if result.lags and (lag := percentile_ms(sorted(result.lags), 99)) > LAG_MS:
        lines.append(f"THE GENERATOR IS LATE (p99 {lag:.1f} ms): lower the rate, or give it a core of its own")
    return [*lines, f"The generator ran at {result.scheduling}." if result.scheduling else "Nothing was sent."]


def main() -> int:
    """Send GET requests to one URL at a fixed rate and print latencies from the intended send time."""
    parser = argparse.ArgumentParser(prog="python -m perf.fixed_rate", description=main.__doc__)
    parser.add_argument("url")
    parser.add_argument("--rate", type=float, default=200.0, help="requests per second (200)")
    parser.add_argument("-c", "--connections", type=int, default=16, help="keep-alive connections (16)")
    parser.add_argument("-d", "--seconds", type=float, default=10.0, help="duration (10)")
    parser.add_argument("--bearer", default="", help="access token")
    options = parser.parse_args()
    parts = urlsplit(options.url)
    request = get(parts.path or "/", parts.netloc, options.bearer)
    sources = [Constant(request, varying=True) for _ in range(options.connections)]
    address = (parts.hostname or "127.0.0.1", parts.port or 80)
    try:
        result = run_fixed(address, sources, rate=options.rate, seconds=options.seconds, ramp_s=0.5)
    except ValueError as error:
        parser.error(str(error))
    sys.stdout.write("\n".join(describe(result)) + "\n")
    return 1 if result.failures or result.shed else 0


if __name__ == "__main__":
    sys.exit(main())
