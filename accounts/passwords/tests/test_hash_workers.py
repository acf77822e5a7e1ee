"""Passwords with hash workers: what leaves this machine, what does not, and a sign-in never fails for their sake."""

import asyncio
import hmac
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import hashers
from pytest_django import Settings
from structlog.testing import capture_logs

from accounts.passwords import hashing as passwords
from accounts.passwords.formats import argon2 as argon2_format
from accounts.passwords.hashing import Verdict
from ironauth.config.hash_workers import HashWorkerSettings, WorkerAddress
from ironauth.infrastructure.core.errors import Overloaded
from ironauth.infrastructure.hashing import argon2 as argon2_raw
from ironauth.infrastructure.hashing.argon2 import Library, Run
from ironauth.infrastructure.hashing.local_pool import SAFETY_FACTOR, HashPool
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.hashing.remote.pool import SharedHashPool
from ironauth.infrastructure.hashing.remote.protocol import Load, Refused, frame
from ironauth.infrastructure.hashing.tests.hash_worker import Impostor, LocalWorker, Occupied, asking
from ironauth.infrastructure.threads import circuit_breaker as breaker

PASSWORD = "violet otter rides 9 trams"
PEPPERS = {"new": bytes(range(32)), "old": b"o" * 32}
RIGHT, STALE, WRONG = Verdict(ok=True, needs_rehash=False), Verdict(ok=True, needs_rehash=True), Verdict(False, False)
type Workers = Callable[..., list[LocalWorker]]


@pytest.fixture
def workers(settings: Settings, tmp_path: Path) -> Iterator[Workers]:
    """A starter of hash workers that this process uses from then on."""
    settings.IRONAUTH_PASSWORD_PEPPERS = PEPPERS
    settings.IRONAUTH_HASH_THREADS = 1
    with ExitStack() as stack:

        def start(count: int = 1, *, timeout_s: float = 2.0, connections: int = 8, **each: float) -> list[LocalWorker]:
            made = [stack.enter_context(LocalWorker(tmp_path / f"{n}.sock", **each)) for n in range(count)]  # type: ignore[arg-type]
            use(settings, *(worker.address for worker in made), timeout_s=timeout_s, connections=connections)
            return made

        yield start
        hash_pool().shutdown()


def use(settings: Settings, *addresses: WorkerAddress, timeout_s: float = 2.0, connections: int = 8) -> None:
    """Name these workers in the settings."""
    settings.IRONAUTH_PASSWORD_PEPPERS = PEPPERS
    settings.IRONAUTH_HASH_WORKERS = HashWorkerSettings(addresses, None, connections, timeout_s)


def done(workers: list[LocalWorker]) -> list[int]:
    """Return how many hashes each worker has computed."""
    return [worker.pool.stats().completed for worker in workers]


def here() -> int:
    """Return how many jobs the local pool has done."""
    return hash_pool().stats().completed


# ---------------------------------------------------------------- what leaves, and what does not
def test_without_workers_the_pool_is_the_plain_one() -> None:
    """Off, which is the default, nothing of them is in the way."""
    assert type(hash_pool()) is HashPool
    assert hash_pool().worker_stats() == []


async def test_hashes_are_made_and_verified_elsewhere(workers: Workers, settings: Settings) -> None:
    """A worker computes what this machine would have: hashes of either verify at the other, by either face."""
    used = workers()
    made = await passwords.hash_password(PASSWORD)
    assert await passwords.verify_password(PASSWORD, made) == RIGHT
    assert await passwords.verify_password("wrong", made) == WRONG
    assert await asyncio.to_thread(async_to_sync(passwords.verify_password), PASSWORD, made) == RIGHT
    assert await asyncio.to_thread(hashers.check_password, PASSWORD, made)
    assert (done(used), here()) == ([5], 0)
    assert [stats.answered for stats in hash_pool().worker_stats()] == [5]
    settings.IRONAUTH_HASH_WORKERS = None
    assert await passwords.verify_password(PASSWORD, made) == RIGHT
    assert await passwords.verify_password("wrong", made) == WRONG


async def test_neither_the_password_nor_the_stored_hash_is_on_the_wire(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every byte that is sent is one request with the MAC and the salt; the pepper and the digest stay here."""
    workers()
    sent = bytearray()
    send = socket.socket.sendall

    class Recorded(socket.socket):
        def sendall(self, data: bytes, flags: int = 0) -> None:  # type: ignore[override]
            sent.extend(data)
            return send(self, data, flags)

    monkeypatch.setattr(socket, "socket", Recorded)
    made = await passwords.hash_password(PASSWORD)
    stored = argon2_format.read(made)
    assert stored is not None
    expected = len(sent)
    await passwords.verify_password(PASSWORD, made)
    assert len(sent) == 2 * expected
    mac = hmac.digest(PEPPERS["new"], PASSWORD.encode(), "sha256")
    assert sent.count(mac) == 2
    assert sent.count(stored.salt) == 2
    for secret in (PASSWORD.encode(), PASSWORD.split(maxsplit=1)[0].encode(), PEPPERS["new"], stored.digest):
        assert secret not in sent


@pytest.mark.parametrize("kind", ["no pepper", "Django's Argon2", "other algorithm", "dearer"])
async def test_what_must_stay_is_hashed_here(workers: Workers, settings: Settings, kind: str) -> None:
    """A password without pepper would have to travel itself; and what costs more than today's says nothing of time."""
    if kind == "no pepper":
        settings.IRONAUTH_PASSWORD_PEPPERS = {}
    if kind == "dearer":
        settings.IRONAUTH_PASSWORD_PEPPERS, settings.IRONAUTH_ARGON2_MEMORY_KIB = PEPPERS, 257
    if kind in ("no pepper", "dearer"):
        stored = await passwords.hash_password(PASSWORD)
    elif kind == "Django's Argon2":
        stored = hashers.Argon2PasswordHasher().encode(PASSWORD, "somesaltsomesaltsomesa")
    else:
        stored = hashers.PBKDF2PasswordHasher().encode(PASSWORD, "somesalt", iterations=1)
    settings.IRONAUTH_ARGON2_MEMORY_KIB = 256
    used = workers()
    assert await passwords.verify_password(PASSWORD, stored) == STALE
    assert await passwords.verify_password("wrong", stored) == WRONG
    assert (done(used), here()) == ([0], 2)
    assert await asyncio.to_thread(hashers.check_password, PASSWORD, stored)
    assert done(used) == [0]


async def test_what_costs_as_much_as_today_may_leave(workers: Workers, settings: Settings) -> None:
    """The other side of that bound: the same cost, a cheaper one, and an older pepper."""
    used = workers()
    settings.IRONAUTH_ARGON2_MEMORY_KIB = 255
    cheaper = await passwords.hash_password(PASSWORD)
    settings.IRONAUTH_ARGON2_MEMORY_KIB = 256
    settings.IRONAUTH_PASSWORD_PEPPERS = {"old": PEPPERS["old"]}
    older = await passwords.hash_password(PASSWORD)
    settings.IRONAUTH_PASSWORD_PEPPERS = PEPPERS
    assert await passwords.verify_password(PASSWORD, cheaper) == STALE
    assert await passwords.verify_password(PASSWORD, older) == STALE
    assert (done(used), here()) == ([4], 0)


def test_a_job_at_worker_a_worker_never_sends_what_has_no_pepper(workers: Workers, settings: Settings) -> None:
    """Even where such a hash is asked for inside a job that was sent away, and fits, it runs on the local pool."""
    used = workers()
    settings.IRONAUTH_PASSWORD_PEPPERS = {}
    assert hashers.make_password("as many characters as a MAC has.").startswith("argon2$argon2id$")
    assert (done(used), here()) == ([0], 1)


@pytest.mark.parametrize("kind", ["unknown", "wrong", "unusable", "garbage", "empty", "pepper gone", "too long"])
async def test_every_refusal_costs_exactly_one_run_at_a_worker(workers: Workers, settings: Settings, kind: str) -> None:
    """Whatever the reason, it is hashed where a right password is, so that no reason can be told by its time."""
    used = workers()
    known = await passwords.hash_password(PASSWORD)
    stored = {
        "unknown": None,
        "unusable": hashers.make_password(None),
        "garbage": "argon2$what",
        "empty": "",
        "pepper gone": known.replace("pepper=new", "pepper=gone"),
    }
    given = "y" * 1025 if kind == "too long" else "not the password"
    assert await passwords.verify_password(given, stored.get(kind, known)) == WRONG
    assert (done(used), here()) == ([2], 0)


# ---------------------------------------------------------------- the least loaded
async def test_the_least_loaded_is_chosen(workers: Workers) -> None:
    """Six at once at two workers and here, one thread each: all three have work, nobody all of it."""
    used = workers(2)
    await asyncio.gather(*(passwords.hash_password(PASSWORD) for _ in range(6)))
    assert sum(done(used)) + here() == 6
    assert all(count >= 1 for count in (*done(used), here()))


async def test_connections_bound_what_is_under_way(workers: Workers) -> None:
    """With one connection each a second hash at once is ours, however short the worker's queue."""
    used = workers(connections=1)
    release = threading.Event()
    first = asyncio.ensure_future(hash_pool().run(release.wait, movable=True))
    await asyncio.sleep(0.02)
    assert [stats.under_way for stats in hash_pool().worker_stats()] == [1]
    await passwords.hash_password(PASSWORD)
    assert (done(used), here()) == ([0], 1)
    release.set()
    await first
    assert [stats.under_way for stats in hash_pool().worker_stats()] == [0]


async def test_a_worker_makes_room_where_the_local_pool_has_none(workers: Workers) -> None:
    """With every local thread taken a sign-in is not refused while a worker is free; without one it is, as ever."""
    used = workers()
    begun, release = threading.Event(), threading.Event()

    def occupied() -> None:
        begun.set()
        release.wait()

    busy = asyncio.ensure_future(hash_pool().run(occupied))
    assert await asyncio.to_thread(begun.wait, 20)
    hash_pool()._mean_s = 300.0  # who waits here waits longer than the limit, however slow the machine
    try:
        hash_pool().require_capacity()
        assert await passwords.hash_password(PASSWORD)
        assert done(used) == [1]
        with pytest.raises(Overloaded):
            await hash_pool().run(lambda: None)
        used[0].stop()
        with pytest.raises(Overloaded):
            await passwords.hash_password(PASSWORD)
        with pytest.raises(Overloaded):
            hash_pool().require_capacity()
    finally:
        release.set()
        await busy


async def test_a_flood_of_one_network_leaves_anothers_turn(workers: Workers) -> None:
    """With the worker and the local queue full of one network's hashes, another's is let in, and goes first here."""
    workers(connections=1)
    pool, release, order = hash_pool(), threading.Event(), list[str]()
    pool._mean_s = pool._max_wait_s / SAFETY_FACTOR / 4.5  # room for four
    loop = asyncio.get_running_loop()

    def ask(address: str, owner: str) -> asyncio.Task[None]:
        return loop.create_task(pool.run(partial(order.append, owner), movable=True), context=asking(address, owner))

    away = loop.create_task(pool.run(release.wait, movable=True), context=asking("192.0.2.1"))
    await asyncio.sleep(0.02)
    assert [stats.under_way for stats in pool.worker_stats()] == [1]
    busy = loop.create_task(pool.run(release.wait), context=asking("192.0.2.1"))
    await asyncio.sleep(0.02)
    flood = [ask("192.0.2.1", f"own {number}") for number in range(6)]
    await asyncio.sleep(0.02)
    assert pool.stats().queued == 4
    with pytest.raises(Overloaded):
        asking("192.0.2.1").run(pool.require_capacity)
    asking("198.51.100.7").run(pool.require_capacity)
    mine = ask("198.51.100.7", "mia")
    await asyncio.sleep(0.02)
    release.set()
    await asyncio.gather(mine, away, busy)
    done_or_refused = await asyncio.gather(*flood, return_exceptions=True)
    assert sum(isinstance(one, Overloaded) for one in done_or_refused) == 3
    assert order.index("mia") <= 1


async def test_who_holds_little_does_not_queue_at_a_worker(workers: Workers) -> None:
    """A worker that is sooner free than the end of a flood's queue takes the flood's, not somebody's next turn here."""
    workers()
    pool, release = hash_pool(), threading.Event()
    loop = asyncio.get_running_loop()
    (worker,) = pool._workers  # type: ignore[attr-defined]  # the shared pool has them
    worker._load = Load(threads=1, ahead=0, mean_s=0.3)
    worker._others, worker._others_until = 5, time.monotonic() + 60  # 1.9 s to wait there
    busy = loop.create_task(pool.run(release.wait), context=asking("192.0.2.1"))
    await asyncio.sleep(0.02)
    pool._mean_s = 0.3
    flood = [loop.create_task(pool.run(lambda: None), context=asking("192.0.2.1")) for _ in range(8)]
    await asyncio.sleep(0.02)
    assert asking("192.0.2.1").run(pool._freest) is worker  # type: ignore[attr-defined]
    assert asking("198.51.100.7").run(pool._freest) is None  # type: ignore[attr-defined]
    release.set()
    await asyncio.gather(busy, *flood)


def test_a_busy_worker_is_passed_over(workers: Workers) -> None:
    """Who refuses for his load is replaced by another worker, and that is no outage."""
    used = workers(2, max_wait_s=0.05)
    with Occupied(used[0].pool):
        assert hashers.make_password(PASSWORD).startswith("argon2$pepper=new$")
        stats = hash_pool().worker_stats()
        assert [(one.busy, one.answered, one.available) for one in stats] == [(1, 0, True), (0, 1, True)]
        assert here() == 0


async def test_workers_are_met_at_start(workers: Workers, settings: Settings, tmp_path: Path) -> None:
    """Before the first sign-in the log says who is there and who is not; without workers it says nothing."""
    with capture_logs() as lines:
        await hash_pool().ping_workers()
        used = workers(threads=3)
        use(settings, used[0].address, WorkerAddress(path=str(tmp_path / "nobody.sock")))
        await hash_pool().ping_workers()
    told = {line["event"]: line.get("threads") for line in lines}
    assert told == {"hash_worker_1_ready": 3, "hash_worker_2_lost": None}
    assert [one.available for one in hash_pool().worker_stats()] == [True, False]


# ---------------------------------------------------------------- outages
async def test_without_any_worker_everything_is_hashed_here(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody listens at either address: each is tried once, then left alone."""
    monkeypatch.setattr(breaker, "PAUSE_S", 60.0)
    use(settings, *(WorkerAddress(path=str(tmp_path / name)) for name in ("one.sock", "two.sock")))
    made = await passwords.hash_password(PASSWORD)
    assert await passwords.verify_password(PASSWORD, made) == RIGHT
    assert await passwords.verify_password("wrong", made) == WRONG
    assert here() == 3
    assert [(one.available, one.failures) for one in hash_pool().worker_stats()] == [(False, 1), (False, 1)]
    hash_pool().shutdown()


async def test_a_worker_that_comes_back_is_used_again(workers: Workers, settings: Settings, tmp_path: Path) -> None:
    """After the pause somebody tries, and if that works everybody does."""
    used = workers()
    used[0].stop()
    await passwords.hash_password(PASSWORD)
    assert here() == 1
    with LocalWorker(tmp_path / "0.sock") as again:
        pool = hash_pool()
        assert isinstance(pool, SharedHashPool)
        pool._workers[0].breaker._again_at = 0.0  # the pause is over
        for _ in range(3):
            await passwords.hash_password(PASSWORD)
        assert (done([again]), here()) == ([3], 1)
    assert hash_pool().worker_stats()[0].available


async def test_a_silent_worker_delays_one_sign_in(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the time limit, once, and is answered; the next ones do not wait."""
    monkeypatch.setattr(breaker, "PAUSE_S", 60.0)
    with Impostor(tmp_path / "w.sock", None) as frozen:
        use(settings, frozen.address, timeout_s=1.0)
        began = time.monotonic()
        made = await passwords.hash_password(PASSWORD)
        first_s = time.monotonic() - began
        assert await passwords.verify_password(PASSWORD, made) == RIGHT
        assert first_s >= 1.0
        assert time.monotonic() - began < first_s + 1.0
        assert here() == 2
        hash_pool().shutdown()


async def test_after_one_silence_nobody_else_is_asked(
    workers: Workers, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has waited for one worker is answered by ourselves; the next goes straight to the worker that works."""
    monkeypatch.setattr(breaker, "PAUSE_S", 60.0)
    used = workers()
    with Impostor(tmp_path / "frozen.sock", None) as frozen:
        use(settings, frozen.address, used[0].address, timeout_s=0.1)
        await passwords.hash_password(PASSWORD)
        assert (len(frozen.heard), done(used), here()) == (1, [0], 1)
        await passwords.hash_password(PASSWORD)
        assert (len(frozen.heard), done(used), here()) == (1, [1], 1)
        hash_pool().shutdown()


@pytest.mark.parametrize("says", [b"", b"no frame at all", frame(Refused())])
async def test_a_worker_that_answers_nonsense_changes_no_verdict(
    settings: Settings, tmp_path: Path, says: bytes
) -> None:
    """Right stays right and wrong stays wrong: the hash is made here."""
    with Impostor(tmp_path / "w.sock", says) as other:
        use(settings, other.address)
        made = await passwords.hash_password(PASSWORD)
        assert await passwords.verify_password(PASSWORD, made) == RIGHT
        assert await passwords.verify_password("wrong", made) == WRONG
        hash_pool().shutdown()
    settings.IRONAUTH_HASH_WORKERS = None
    assert await passwords.verify_password(PASSWORD, made) == RIGHT


async def test_the_fall_back_is_bounded_too(settings: Settings, tmp_path: Path) -> None:
    """What comes back from a worker while every local thread is taken for too long is refused, as the pool says it."""
    settings.IRONAUTH_HASH_MAX_WAIT_S, settings.IRONAUTH_HASH_THREADS = 0.5, 1
    with Impostor(tmp_path / "w.sock", b"") as other:
        use(settings, other.address)
        release = threading.Event()
        busy = asyncio.ensure_future(hash_pool().run(release.wait))
        await asyncio.sleep(0.02)
        with pytest.raises(Overloaded):
            await passwords.hash_password(PASSWORD)
        assert len(other.heard) == 1
        release.set()
        await busy
        hash_pool().shutdown()


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_hash_that_finds_no_thread_for_its_worker_is_refused_in_time(
    settings: Settings, tmp_path: Path, *, blocking: bool
) -> None:
    """Who hangs up leaves a thread busy until its worker answers; nobody else waits for it beyond the limit."""
    settings.IRONAUTH_HASH_MAX_WAIT_S = 0.1
    use(settings, WorkerAddress(path=str(tmp_path / "nobody.sock")), connections=1)
    pool, begun, end = hash_pool(), threading.Event(), threading.Event()

    def unanswered() -> None:
        begun.set()
        end.wait(5)

    try:
        gone = asyncio.create_task(pool.run(unanswered, movable=True))
        await asyncio.to_thread(begun.wait)
        gone.cancel()
        await asyncio.wait([gone])
        asked = time.monotonic()
        blocked = asyncio.to_thread(partial(pool.run_blocking, time.monotonic, movable=True)) if blocking else None
        with pytest.raises(Overloaded):
            await (blocked or pool.run(time.monotonic, movable=True))
        assert time.monotonic() - asked < 1
        assert pool.stats().rejected == 1
    finally:
        end.set()
        pool.shutdown()


async def test_argon2_never_runs_on_a_thread_that_waits(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when a worker fails: the memory and the priority of the local pool's threads bound every hash made here."""
    ran: list[str] = []
    real = argon2_raw.compute

    def noted(run: Run, fastest: Library) -> bytes:
        ran.append(threading.current_thread().name)
        return real(run, fastest)

    monkeypatch.setattr(argon2_raw, "compute", noted)
    use(settings, WorkerAddress(path=str(tmp_path / "nobody.sock")))
    made = await passwords.hash_password(PASSWORD)
    assert await passwords.verify_password("wrong", made.replace("pepper=new", "pepper=gone")) == WRONG
    assert len(ran) == 2
    assert all(name.startswith("hash-") for name in ran)
    hash_pool().shutdown()
