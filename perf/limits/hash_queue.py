"""The hash queue under one network's flood of right passwords, and somebody elsewhere who signs in meanwhile."""

import asyncio
import itertools
import socket
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple

from ironauth.config.checks import default_hash_threads
from perf.http_client import Connection, Reply, refuse_remote
from perf.rig import nginx
from perf.rig.console import say
from perf.rig.processes import StartError, free_port
from perf.rig.seed import PASSWORD, email_of
from perf.rig.site_setup import prepare_site, serve, site_environment

NAME: Final = "hash queue"
ACCOUNTS: Final = 12  # the flood's own
EACH: Final = 6  # connections of each, never idle
FLOODER, OTHER, PROXY = "127.0.0.3", "127.0.0.2", "127.0.0.1"
PAUSE_S: Final = 0.25  # after a refusal: who does not wait at all floods the event loop, which is another experiment
RATE: Final = 2.0  # sign-ins per second of the other client; nginx lets 5 in
WARM_S: Final = 3.0  # until the flood has filled what it can
SECONDS, QUICK_SECONDS = 30.0, 8.0
P95_S: Final = 1.5
_START_S: Final = 15.0  # longest that nginx may take to listen
_API: Final = "/api/v1/access"


class Way(NamedTuple):
    """How clients reach the server; ``certificates``: of the authority that vouches for nginx."""

    name: str
    port: int
    certificates: Path | None = None

    def connection(self, source: str) -> Connection:
        """Return a connection that comes from this loopback address."""
        refuse_remote((source, self.port))
        address = "127.0.0.1", self.port
        if self.certificates is None:
            return Connection(address, source=source, patience_s=30)
        return Connection(address, host=nginx.HOST, source=source, tls=nginx.trust(self.certificates), patience_s=30)


class Scene(NamedTuple):
    """What came of one flood. ``flood``: its answers by status; ``seen``: the other client's status and seconds."""

    way: str
    workers: int
    flood: dict[int, int]
    seen: Sequence[tuple[int, float]]

    @property
    def refused(self) -> int:
        """How many of the other client's sign-ins were 503."""
        return sum(status == HTTPStatus.SERVICE_UNAVAILABLE for status, _ in self.seen)

    @property
    def failed(self) -> int:
        """How many of them were neither let in nor 503."""
        return sum(status != HTTPStatus.OK for status, _ in self.seen) - self.refused

    def within_s(self, share: float) -> float:
        """Return within how many seconds this share of its sign-ins was answered."""
        ordered = sorted(seconds for _, seconds in self.seen)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else float("inf")


def measure(folder: Path, processes: Executor, *, quick: bool) -> list[Scene]:
    """Flood servers of one and of two workers, directly and through the nginx of deploy/.

    Raises:
        StartError: something did not start.
    """
    seconds = QUICK_SECONDS if quick else SECONDS
    scenes = []
    for workers in (1, 2):
        with ExitStack() as scene:
            ways = _site(folder / f"hash-queue-{workers}", workers, scene)
            for way in ways:
                say(f"{NAME}: {ACCOUNTS} accounts from one network, {way.name}, workers: {workers}")
                scenes.append(_flooded(way, workers, processes, seconds))
    return scenes


def _site(folder: Path, workers: int, stack: ExitStack) -> list[Way]:
    """Start a server with its throttles, as it is delivered, and nginx in front of it."""
    folder.mkdir()
    port = free_port()
    environment = site_environment(folder, port=port, hash_threads=default_hash_threads()) | {
        "ALLOWED_HOSTS": f"127.0.0.1,{nginx.HOST}",
        "IRONAUTH_TRUSTED_PROXIES": PROXY,
        "IRONAUTH_THROTTLE": "1",
        "IRONAUTH_ACCESS_LOG": "0",
    }
    prepare_site(environment, people=ACCOUNTS + 1)
    serve(folder / "serve.log", port, environment, stack, workers=workers)
    return [Way("direct", port), _behind_nginx(folder / "nginx", port, stack)]


def _behind_nginx(folder: Path, port: int, stack: ExitStack) -> Way:
    """Start nginx, which ends TLS on a loopback port, in front of the server on ``port``."""
    https, http = free_port(), free_port()
    changes = (
        ("unix:/run/ironauth/web.sock", f"127.0.0.1:{port}"), ("/var/www/acme", f"{folder}/acme"),
        ("listen 443 ", f"listen 127.0.0.1:{https} "), ("listen 80", f"listen 127.0.0.1:{http}"),
    )  # fmt: skip
    authority = nginx.copy_files(folder, changes)
    process = nginx.start(folder, stack)
    deadline = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", https)) == 0:
                return Way("nginx", https, authority.file)
        time.sleep(0.02)
    raise StartError(f"nginx does not listen: {(folder / 'output.log').read_text(errors='replace')[-2000:]}")


def _flooded(way: Way, workers: int, processes: Executor, seconds: float) -> Scene:
    began = time.monotonic()
    beside = processes.submit(sign_in_at_a_rate, way, began + WARM_S, seconds)
    flood = asyncio.run(_flood(way, began + WARM_S + seconds))
    return Scene(way.name, workers, dict(sorted(flood.items())), beside.result())


def sign_in_at_a_rate(way: Way, begin_at: float, seconds: float) -> list[tuple[int, float]]:
    """Sign one person in `RATE` times a second, whatever becomes of it; return statuses and times since each was due.

    ``begin_at``: monotonic seconds, one clock for all processes.
    """
    return asyncio.run(_sign_ins(way, begin_at, seconds))


async def _sign_ins(way: Way, begin_at: float, seconds: float) -> list[tuple[int, float]]:
    person = {"email": email_of(ACCOUNTS), "password": PASSWORD}
    free: list[Connection] = []

    async def one(due: float) -> tuple[int, float]:
        await asyncio.sleep(due - time.monotonic())
        connection = free.pop() if free else way.connection(OTHER)
        answer = await connection.send("POST", f"{_API}/signin", json=person)
        free.append(connection)
        return answer.status, time.monotonic() - due

    try:
        return list(await asyncio.gather(*(one(begin_at + at / RATE) for at in range(int(seconds * RATE)))))
    finally:
        for connection in free:
            connection.close()


async def _flood(way: Way, until: float) -> Counter[int]:
    """Give right passwords on every connection until then: sign-ins, and two acts of who is signed in."""
    statuses: Counter[int] = Counter()
    tokens: dict[int, str] = {}

    async def act(connection: Connection, number: int, kind: str) -> Reply:
        if kind == "sign-in" or number not in tokens:
            person = {"email": email_of(number), "password": PASSWORD}
            answer = await connection.send("POST", f"{_API}/signin", json=person)
            if answer.status == HTTPStatus.OK:
                tokens[number] = answer.json()["access_token"]
            return answer
        method, path = ("POST", "/step-up") if kind == "step-up" else ("DELETE", "/mfa/totp")
        return await connection.send(method, f"{_API}{path}", json={"password": PASSWORD}, token=tokens[number])

    async def one(number: int, kinds: Sequence[str]) -> None:
        async with way.connection(FLOODER) as connection:
            for kind in itertools.cycle(kinds):
                if time.monotonic() >= until:
                    return
                answer = await act(connection, number, kind)
                statuses[answer.status] += 1
                if answer.status in {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS}:
                    await asyncio.sleep(PAUSE_S)

    ways = [("sign-in",)] * (EACH // 2) + [("step-up", "remove factor")] * (EACH - EACH // 2)
    await asyncio.gather(*(one(number, kinds) for number in range(ACCOUNTS) for kinds in ways))
    return statuses
