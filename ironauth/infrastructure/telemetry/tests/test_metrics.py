"""Every figure moves by exactly what was done."""

import asyncio
import gc
import os
import threading
import time
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from django.http import HttpResponse
from django.test import AsyncRequestFactory
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.passwords.hashing import hash_password
from conftest import PASSWORD, bearer
from ironauth import metrics_page
from ironauth.config.hash_workers import HashWorkerSettings, WorkerAddress
from ironauth.infrastructure.cache.invalidation import invalidate, invalidation_feed
from ironauth.infrastructure.cache.memory import L1, Freshness, L1Entry
from ironauth.infrastructure.cache.shared_entries import L2
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core.errors import Overloaded, Unavailable
from ironauth.infrastructure.db.unit_of_work import DatabasePool, database
from ironauth.infrastructure.hashing.local_pool import HashPool
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.hashing.tests.hash_worker import LocalWorker
from ironauth.infrastructure.http.guard import Guard
from ironauth.infrastructure.http.handler import LeanHandler
from ironauth.infrastructure.http.hot_lane import HotLane
from ironauth.infrastructure.http.lanes import AdminLane, LaneRouter, longest_body
from ironauth.infrastructure.http.refusal import overloaded
from ironauth.infrastructure.models import Invalidation
from ironauth.infrastructure.telemetry import metrics
from ironauth.infrastructure.telemetry.metrics import Recorder
from ironauth.infrastructure.telemetry.metrics_catalogue import BUCKETS_S, CATALOGUE, HISTOGRAM_WIDTH, bucket
from ironauth.infrastructure.telemetry.metrics_export import text_of
from ironauth.infrastructure.telemetry.metrics_files import claim
from ironauth.infrastructure.threads.request_threads import request_threads
from ironauth.server.instrumentation.metrics_requests import CountedApi, CountedPages
from ironauth.server.instrumentation.metrics_sampling import TICK_S, Sampling
from ironauth.server.instrumentation.route_label import NotingPageHandler, RouteLabelHandler
from ironauth.tests.asgi_conversation import Conversation
from tokens.access import remembered
from tokens.access.credentials import access_name
from tokens.sessions import authentication

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

ME = "/api/v1/access/me"
TOKEN = "t" * 43
COUNTED = "ironauth_requests_total"
TIMED = "ironauth_request_duration_seconds"


class Figures:
    """What the text says, and by how much it has changed since it was last asked."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._before: dict[tuple[str, str], float] = {}
        self.moved()

    def now(self) -> dict[tuple[str, str], float]:
        """Return every sample by its name and the values of its labels, by their names' order."""
        text, _ = text_of(self.recorder, None, accepted="")
        return {
            (sample.name, " ".join(value for _, value in sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text.decode())
            for sample in family.samples
        }

    def moved(self, *prefixes: str) -> dict[tuple[str, str], float]:
        """Return the changes of the samples whose names begin so, without those that stayed."""
        before, now = self._before, self.now()
        self._before = now
        return {
            name: value - before.get(name, 0)
            for name, value in now.items()
            if name[0].startswith(prefixes) and value != before.get(name, 0)
        }


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Recorder:
    """Metrics on, as with IRONAUTH_METRICS=1, counting from nothing."""
    made = Recorder()
    monkeypatch.setattr(metrics, "recorder", made)
    settings.IRONAUTH_METRICS = True  # this makes another cache object, which counts
    return made


@pytest.fixture
def figures(recorder: Recorder) -> Figures:
    """The figures of this process."""
    return Figures(recorder)


@pytest.fixture
async def measured(recorder: Recorder) -> Any:
    """A client of the application as ``ironauth.asgi`` assembles it with metrics on."""
    pages = CountedPages(AdminLane(NotingPageHandler(), request_threads), recorder)
    hot = HotLane(
        LaneRouter(LeanHandler(request_threads, observer=CountedApi(recorder)), pages),
        paths=frozenset({ME}),
        answers_of=authentication.answers_of,
        keep=remembered.keep_answer,
        cookie_name=access_name,
    )
    transport = httpx.ASGITransport(app=cast("Any", Guard(hot, longest_body=longest_body)), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
        yield client


async def test_requests_are_counted_by_route_and_status(measured: httpx.AsyncClient, figures: Figures) -> None:
    """The pattern stands for the path, whatever is in it; what no pattern fits is one route."""
    for path in ("/ping", "/ping", "/api/v1/users/01a2", "/nowhere/1", "/nowhere/2", "/admin/login/"):
        await measured.get(path)
    await measured.get("/api/v1/access/sessions/0194d2a0-0000-7000-8000-000000000000")
    await measured.delete("/api/v1/access/sessions/0194d2a0-0000-7000-8000-000000000000")
    assert figures.moved(COUNTED) == {
        (COUNTED, "api GET /ping 200"): 2,
        (COUNTED, "api GET none 404"): 3,  # no UUID, hence no user's address
        (COUNTED, "admin GET /admin/login/ 200"): 1,
        (COUNTED, "api GET /api/v1/access/sessions/<uuid:session_id> 401"): 1,
        (COUNTED, "api DELETE /api/v1/access/sessions/<uuid:session_id> 401"): 1,
    }


async def test_methods_are_bounded_and_timed_where_they_are_offered(
    measured: httpx.AsyncClient, figures: Figures
) -> None:
    """Anybody who invents methods makes no series, and 405 does not make a route look fast."""
    await measured.request("BREW", "/ping")
    await measured.request("POUR", "/ping")
    await measured.post("/ping")
    await measured.get("/ping")
    moved = figures.moved(COUNTED, TIMED)
    assert {name: value for name, value in moved.items() if name[0] == COUNTED} == {
        (COUNTED, "api other /ping 405"): 2,
        (COUNTED, "api POST /ping 405"): 1,
        (COUNTED, "api GET /ping 200"): 1,
    }
    assert {name: value for name, value in moved.items() if name[0] == f"{TIMED}_count"} == {
        (f"{TIMED}_count", "api GET /ping"): 1
    }


async def test_the_hot_lane_counts_its_own(measured: httpx.AsyncClient, figures: Figures, pair: dict[str, Any]) -> None:
    """The first request is the API lane's, which learns; each further one is the hot lane's."""
    figures.moved()
    for _ in range(5):
        assert (await measured.get(ME, headers=bearer(pair))).status_code == 200
    moved = figures.moved(COUNTED)
    api = moved.pop((COUNTED, f"api GET {ME} 200"))
    assert moved == {(COUNTED, f"hot GET {ME} 200"): 5 - api}
    assert api in (1, 2)  # the token is recognised from the second request on, unless it was before


async def test_what_is_counted_is_written_ten_times_a_second(tmp_path: Path) -> None:
    """By the next tick and at the end it is in the worker's file, once."""
    file = claim(tmp_path)
    recorder = Recorder(file)
    series = (TIMED, "GET", ME, "hot", "200")
    tally = recorder.request_tally("GET", ME, "hot", 200)
    assert recorder.request_tally("GET", ME, "hot", 200) is tally
    sampling = Sampling(recorder)
    sampling.start()
    tally[0] += 2
    tally[bucket(100_001)] += 1
    tally[-1] += 240_001
    assert series not in file.read()
    await asyncio.sleep(TICK_S * 2)
    written = [2, 1, *[0] * (HISTOGRAM_WIDTH - 3), 240_001]
    assert file.read()[series] == written
    tally[0] += 1
    tally[-1] += 1
    sampling.stop()
    assert file.read()[series] == [3, *written[1:-1], 240_002]
    os.close(file.lock)


async def test_pages_without_an_answer(recorder: Recorder, figures: Figures) -> None:
    """A request that is given up is a 499, one whose handler failed a 500, and neither is running any more."""

    async def silent(*_: Any) -> None:
        assert recorder.running == 1

    async def broken(*_: Any) -> None:
        raise KeyError

    await Conversation("/admin/").run(CountedPages(silent, recorder))
    with pytest.raises(KeyError):
        await Conversation("/admin/").run(CountedPages(broken, recorder))
    assert figures.moved(COUNTED) == {(COUNTED, "admin GET none 499"): 1, (COUNTED, "admin GET none 500"): 1}
    assert recorder.running == 0


async def test_requests_of_the_api_without_an_answer(recorder: Recorder, figures: Figures, settings: Settings) -> None:
    """Who leaves before the answer is a 499; a stream that breaks has had its status; what escapes is a 500."""
    settings.ROOT_URLCONF = "ironauth.infrastructure.http.tests.test_handler"
    handler = LeanHandler(request_threads, observer=CountedApi(recorder))
    await Conversation("/api/hello", "POST").body(b"a", finished=False).leave().run(handler)
    for path in ("/api/waiting", "/api/endless"):
        talk = Conversation(path).body()
        running = asyncio.create_task(talk.run(handler))
        await asyncio.sleep(0.02)
        assert recorder.running == 1
        talk.leave()
        await asyncio.wait_for(running, 2)

    async def send(message: Any) -> None:
        raise ConnectionError

    talk = Conversation("/api/function").body()
    with pytest.raises(ConnectionError):
        await handler(talk.scope, talk.receive, send)
    for path in ("/api/stream", "/api/cookies"):
        talk = Conversation(path).body()
        with pytest.raises(ConnectionError):
            await handler(talk.scope, talk.receive, send)
    large = Conversation("/api/cookies", "HEAD").body()

    async def stop_after_the_head(message: Any) -> None:
        if message["type"] != "http.response.start":
            raise ConnectionError

    with pytest.raises(ConnectionError):
        await handler(large.scope, large.receive, stop_after_the_head)
    await Conversation("/api/broken").body().run(handler)
    await Conversation("/api/hello", query_string=b"\xff").body().run(handler)
    assert figures.moved(COUNTED) == {
        (COUNTED, "api POST none 499"): 1,
        (COUNTED, "api GET /api/waiting 499"): 1,
        (COUNTED, "api GET /api/endless 200"): 1,
        (COUNTED, "api GET /api/function 500"): 1,
        (COUNTED, "api GET /api/stream 500"): 1,
        (COUNTED, "api GET /api/cookies 500"): 1,
        (COUNTED, "api HEAD /api/cookies 200"): 1,
        (COUNTED, "api GET /api/broken 500"): 1,
        (COUNTED, "api GET none 400"): 1,
    }
    assert recorder.running == 0


async def test_with_traces_on_as_well(recorder: Recorder, figures: Figures) -> None:
    """The handler that tells spans of its routes is counted alike."""
    handler = RouteLabelHandler(request_threads, observer=CountedApi(recorder))
    await Conversation("/ping").body().run(handler)
    assert figures.moved(COUNTED) == {(COUNTED, "api GET /ping 200"): 1}


async def test_a_strangers_host_counts_where_it_is_refused(measured: httpx.AsyncClient, figures: Figures) -> None:
    """The API lane refuses it, whatever the path."""
    await measured.get("/admin/login/", headers={"Host": "elsewhere.example"})
    assert figures.moved(COUNTED) == {(COUNTED, "api GET none 400"): 1}


async def test_refusals_are_counted_apart(measured: httpx.AsyncClient, figures: Figures) -> None:
    """What the guard or the server refuses never reaches a route."""
    await measured.post("/ping", content=b"x" * (64 * 1024 + 1))
    await Conversation().run(overloaded)
    assert figures.moved("ironauth_refusals", COUNTED) == {
        ("ironauth_refusals_total", "413"): 1,
        ("ironauth_refusals_total", "503"): 1,
    }


@pytest.mark.parametrize(
    ("seconds", "bucket"), [(0.0, "0.0001"), (0.0001, "0.0001"), (0.000101, "0.00025"), (10.0, "10"), (10.1, "+Inf")]
)
def test_a_time_on_an_edge_belongs_below_it(figures: Figures, seconds: float, bucket: str) -> None:
    """Buckets hold what is less than or equal to their end; the sum is exact to a nanosecond."""
    figures.recorder.observe(seconds, "ironauth_loop_lag_seconds")
    moved = figures.moved("ironauth_loop_lag_seconds")
    ends = [*(f"{end:g}" for end in BUCKETS_S), "+Inf"]
    holding = [end for (name, end) in moved if name.endswith("_bucket")]
    assert [float(end) for end in holding] == [float(end) for end in ends[ends.index(bucket) :]]
    assert moved.get(("ironauth_loop_lag_seconds_sum", ""), 0) == pytest.approx(seconds, abs=1e-9)


async def test_sign_ins_hashes_units_and_tokens(
    measured: httpx.AsyncClient, figures: Figures, member: dict[str, Any]
) -> None:
    """One good and one wrong password: two hashes, one session and one token, and both outcomes."""
    figures.moved()
    for password in (PASSWORD, f"not {PASSWORD}"):
        await measured.post("/api/v1/access/signin", json={"email": member["email"], "password": password})
    assert audit.wait_until_written()
    moved = figures.moved("ironauth_audit", "ironauth_tokens", "ironauth_pool")
    assert moved["ironauth_audit_events_total", "sign_in success"] == 1
    assert moved["ironauth_audit_events_total", "sign_in failure"] == 1
    assert moved["ironauth_tokens_issued_total", "at+jwt"] == 1
    assert moved["ironauth_pool_run_seconds_count", "hash"] == moved["ironauth_pool_wait_seconds_count", "hash"] == 2
    assert moved["ironauth_pool_run_seconds_sum", "hash"] > 0
    assert moved["ironauth_pool_run_seconds_count", "database"] >= 1


async def test_an_event_that_was_rolled_back_is_not_counted(figures: Figures) -> None:
    """The trail and the figure agree."""

    def fails() -> None:
        audit.record(audit.Event.SIGN_UP)
        raise KeyError

    with pytest.raises(KeyError):
        await database().write(fails)
    assert figures.moved("ironauth_audit") == {}
    await database().write(audit.record, audit.Event.SIGN_UP)
    assert figures.moved("ironauth_audit") == {("ironauth_audit_events_total", "sign_up success"): 1}


async def test_refusals_of_pools(figures: Figures) -> None:
    """A hash that is refused, and a unit of work that is given up, are each counted once."""
    hashes = HashPool(threads=1, max_wait_s=0.5, nice=0)
    gate = threading.Event()
    running = asyncio.ensure_future(hashes.run(gate.wait))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await hashes.run(int)
    gate.set()
    await running
    hashes.shutdown()
    pool = DatabasePool(threads=1, timeout_s=0.02)
    with pytest.raises(Unavailable):
        await pool.read(time.sleep, 0.06)
    pool.close()
    assert figures.moved("ironauth_pool_refusals") == {
        ("ironauth_pool_refusals_total", "hash"): 1,
        ("ironauth_pool_refusals_total", "database"): 1,
    }


async def test_hash_workers(figures: Figures, settings: Settings, tmp_path: Path) -> None:
    """What each was asked, and whether it is used: one that answers, and one that is not there."""
    settings.IRONAUTH_PASSWORD_PEPPERS = {"p1": bytes(range(32))}
    with LocalWorker(tmp_path / "w.sock") as worker:
        gone = WorkerAddress(path=str(tmp_path / "gone.sock"))
        settings.IRONAUTH_HASH_WORKERS = HashWorkerSettings((gone, worker.address), None, 8, 2.0)
        await hash_password(PASSWORD)
        assert figures.moved("ironauth_hash_worker") == {
            ("ironauth_hash_worker_answers_total", "hash_worker_1 failed"): 1,
            ("ironauth_hash_worker_answers_total", "hash_worker_2 hashed"): 1,
        }
        sampling = Sampling(figures.recorder)
        sampling.start()
        sampling.stop()
        hash_pool().shutdown()
    now = figures.now()
    assert now["ironauth_hash_worker_available", "hash_worker_1 0"] == 0
    assert now["ironauth_hash_worker_available", "hash_worker_2 0"] == 1
    assert now["ironauth_hash_worker_under_way", "hash_worker_2 0"] == 0


async def test_caches_by_level(figures: Figures, measured: httpx.AsyncClient, pair: dict[str, Any]) -> None:
    """A token seen first is a miss and a reading, the second time a hit; who vouches for it is not counted."""
    figures.moved()
    path = "/api/v1/access/sessions"
    await measured.get(path, headers=bearer(pair))
    first = figures.moved("ironauth_cache_lookups", "ironauth_cache_loads")
    assert first["ironauth_cache_lookups_total", "l1 miss"] >= 1
    assert first["ironauth_cache_loads_total", ""] >= 1
    await measured.get(path, headers=bearer(pair))
    second = figures.moved("ironauth_cache_lookups", "ironauth_cache_loads")
    assert set(second) == {("ironauth_cache_lookups_total", "l1 hit")}
    assert token_cache().find(b"nothing") is None
    assert figures.moved("ironauth_cache_lookups") == {}


async def test_invalidations_by_source(figures: Figures) -> None:
    """Our own are counted when they are committed, others' when the feed reads them or Redis tells."""
    feed = invalidation_feed()
    await feed.start()
    try:
        await database().write(invalidate, "sub:1", "sub:2")
        await database().write(Invalidation.objects.create, tag="sub:3")  # as another process does
        await feed.poll()
    finally:
        await feed.stop()
    feed._on_message(2**40, "sub:4")
    assert figures.moved("ironauth_invalidations") == {
        ("ironauth_invalidations_total", "own"): 2,
        ("ironauth_invalidations_total", "feed"): 1,
        ("ironauth_invalidations_total", "channel"): 1,
    }


async def test_looks_into_redis(figures: Figures, monkeypatch: pytest.MonkeyPatch) -> None:
    """What may not be used is a miss, as what is not there."""
    known = Freshness()  # whose feed does not run: nothing may be used
    shared, into = L2(cast("Any", None), known), L1(known, max_bytes=1, max_stale_s=1)
    assert await shared.get("key", int, into=into, sequence=0) is None
    entry = L1Entry(1, 0.0, 0, (), 0.0)

    async def find(*_: Any) -> L1Entry:
        return entry

    monkeypatch.setattr(shared, "_find", find)
    assert await shared.get("key", int, into=into, sequence=0) is entry
    assert figures.moved("ironauth_cache") == {
        ("ironauth_cache_lookups_total", "l2 miss"): 1,
        ("ironauth_cache_lookups_total", "l2 hit"): 1,
    }


async def test_samples_show_what_is(figures: Figures) -> None:
    """Pools, caches and the process itself are looked at; the loop's lag is counted for every tick it missed."""
    sampling = Sampling(figures.recorder)
    sampling.start()
    sampling.stop()
    now = figures.now()
    assert now["ironauth_pool_threads", "database 0"] == database().pools[0].threads
    assert now["ironauth_pool_queued", "hash 0"] == 0
    assert now["ironauth_worker_resident_bytes", "0"] > 10_000_000
    assert now["ironauth_worker_cpu_seconds_total", ""] > 0
    assert now["ironauth_workers", ""] == 1
    sampling._due = asyncio.get_running_loop().time() - 0.25  # 0.25 s late: two more were missed meanwhile
    sampling._tick()
    sampling.stop()
    moved = figures.moved("ironauth_loop_lag")
    assert moved["ironauth_loop_lag_seconds_count", ""] == 3
    assert moved["ironauth_loop_lag_seconds_sum", ""] == pytest.approx(0.25 + 0.15 + 0.05, abs=0.05)


async def test_pauses_of_the_collector_are_counted_by_generation(figures: Figures) -> None:
    """Each collection counts once, with its time, from the start of the sampling to its end."""
    sampling = Sampling(figures.recorder)
    gc.disable()
    try:
        sampling.start()
        sampling.start()
        began = time.perf_counter()
        gc.collect(0)
        gc.collect(2)
        gc.collect(2)
        took_s = time.perf_counter() - began
        sampling.stop()
        gc.collect(1)
    finally:
        gc.enable()
    moved = figures.moved("ironauth_gc_pause_seconds")
    assert {key[1]: by for key, by in moved.items() if key[0].endswith("_count")} == {"0": 1, "2": 2}
    assert 0 < sum(by for key, by in moved.items() if key[0].endswith("_sum")) < took_s


def test_every_metric_is_shown_from_the_start(figures: Figures) -> None:
    """HELP and TYPE of each are there before the first was counted, and all names are ours."""
    text, media_type = text_of(figures.recorder, None, accepted="")
    assert media_type.startswith("text/plain; version=")
    families = {family.name: family for family in text_string_to_metric_families(text.decode())}
    assert {*CATALOGUE, "ironauth_workers", "ironauth_build_info"} == set(families)
    assert all(families[name].type == metric.kind for name, metric in CATALOGUE.items())


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"Bearer {TOKEN}t", 401),
        (f"bearer{TOKEN}", 401),
        (TOKEN, 401),
        ("Bearer é", 401),
        ("", 401),
    ],
)
async def test_the_figures_are_for_whoever_has_the_token(
    recorder: Recorder, settings: Settings, sent: str, status: int
) -> None:
    """The exact token opens them; anything else is 401, from this machine as from any other."""
    settings.IRONAUTH_METRICS_TOKEN = TOKEN
    request = AsyncRequestFactory().get("/metrics", headers={"Authorization": sent} if sent else {})
    answer: HttpResponse = await metrics_page.metrics(request)
    assert answer.status_code == status
    assert answer["Cache-Control"] == "no-store"
    assert (b"ironauth_requests" in answer.content) == (status == 200)
    assert answer.get("WWW-Authenticate", "").startswith("Bearer" if status == 401 else "")
