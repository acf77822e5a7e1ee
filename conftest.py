"""Fixtures every app's tests share: private servers, a client on the real ASGI application, a signed-in person."""

import functools
import inspect
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import httpx
import msgspec
import pytest
import pytest_django
from asgiref.sync import sync_to_async
from django.apps import apps
from django.conf import settings
from django.core.cache import cache
from django.db import connection, connections, transaction
from django.test import TransactionTestCase
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.audit import triggers as audit_triggers
from ironauth import settings_test
from ironauth.asgi import application
from ironauth.infrastructure.cache import redis_client
from ironauth.infrastructure.cache.invalidation import invalidate
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.ratelimit import lockout
from ironauth.infrastructure.telemetry import logs
from ironauth.management.commands import backup
from ironauth.tests import canary
from ironauth.tests.lanes import api_lane  # noqa: F401 - a fixture
from ironauth.tests.services import PrivatePostgres, PrivateRedis
from tokens.keys.key_set import Family, PublicJwk, new_key_pair
from tokens.keys.models import SigningKey
from tokens.keys.store import key_store
from tokens.keys.units import KEYS_TAG
from tokens.keys.wrapping import seal

#: Meets the default policy (15 code points) and is in no list.
PASSWORD = "violet otter rides 9 trams"
#: A database as the migrations leave it, once there is one: its copy is there in no time, 39 migrations take 1.3 s.
MIGRATED = settings_test.RUN_FOLDER / "migrated.sqlite3"
#: Of the Postgres that ends with the run: it writes as little as it can, and cleans up nothing.
UNLOGGED = (
    "synchronous_commit=off", "full_page_writes=off", "autovacuum=off",
    "checkpoint_timeout=1h", "max_wal_size=4GB", "shared_buffers=128MB", "track_activities=on", "jit=off",
)  # fmt: skip
#: Seconds that this process waits for Redis at most. The product's fifth of a second passes on a busy machine before
#: Redis has had a turn, and what it would have answered counts as a miss: tests of the limit set their own.
REDIS_LIMIT_S = 5.0
#: Seconds a real server process may take to answer its first request.
SERVER_START_S = 60.0
#: Fixtures that start servers: the tests that use them are live.
STARTING = frozenset({"serve_process", "supervise"})

pytest_plugins = [
    "ironauth.tests.canary_hooks",  # every test is searched
    "ironauth.tests.cookie_hooks",
    "ironauth.tests.cost_hooks",
]

_servers = ExitStack()


def pytest_configure(config: pytest.Config) -> None:
    """Start the private servers before the first connection, when the run is on Postgres and Redis."""
    config.addinivalue_line("markers", "storage: depends on storage; also runs on Postgres and Redis")
    config.addinivalue_line("markers", "browser: drives the system's Chromium; skipped where there is none")
    config.addinivalue_line("markers", "live: starts servers of its own, or takes seconds; part of `make test-live`")
    config.addinivalue_line("markers", "only_sqlite: about SQLite; not part of the run on Postgres and Redis")
    config.addinivalue_line("markers", "only_postgres: about Postgres or Redis; part of that run alone")
    settings_test.RUN_FOLDER.chmod(0o711)
    redis_client.LIMIT_S = REDIS_LIMIT_S
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup(1) it is ignored, by every server of the tests too
    if settings_test.STORAGE == "postgres":
        options = [part for option in UNLOGGED for part in ("-c", option)]
        postgres = PrivatePostgres(settings_test.RUN_FOLDER / "postgres", settings_test.POSTGRES_PORT, *options)
        _servers.enter_context(postgres)
        _servers.enter_context(PrivateRedis(settings_test.RUN_FOLDER / "redis", settings_test.REDIS_PORT))


def pytest_sessionstart() -> None:
    """Hide how wide the suite prints (.ci/test) from what it runs: commands wrap their help by it."""
    os.environ.pop("COLUMNS", None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests about the other storage: they belong to the other run, where nothing is skipped."""
    other = "only_sqlite" if settings_test.STORAGE == "postgres" else "only_postgres"
    left_out = [item for item in items if item.get_closest_marker(other)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    for item in items:
        if item.path.name.endswith("_live.py") or not STARTING.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("live")
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.function):
            item.fixturenames.insert(0, "own_connection_closed")


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup() -> Generator[None]:
    """Write what was logged while pytest still captures it, here and below: it is shown where the test fails."""
    yield
    logs.flush()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call() -> Generator[None]:
    """Write what the test has logged."""
    try:
        yield
    finally:
        logs.flush()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown() -> Generator[None]:
    """Let events that no answer waits for arrive before the tables are emptied: the next test does not expect them."""
    assert audit.wait_until_written()
    yield
    logs.flush()


def pytest_unconfigure() -> None:
    """End the private servers and remove everything the run left on disk."""
    _servers.close()
    shutil.rmtree(settings_test.RUN_FOLDER, ignore_errors=True)


@pytest.fixture(scope="session")
def django_db_setup(
    django_db_setup: None,
    django_db_blocker: pytest_django.DjangoDbBlocker,
) -> Iterator[None]:
    """End every other connection before pytest-django drops the test database: pools', and async tests' own.

    Between tests all tables are emptied, the audit trail too: what forbids that is put back by the tests about it.
    """
    with django_db_blocker.unblock():
        if connection.vendor == "sqlite":
            backup.copy(Path(connection.settings_dict["NAME"]), MIGRATED)
        audit_triggers.remove(connection, "delete", "truncate")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", _empty_tables)
        yield
    database().close()
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )


def _empty_tables(_case: TransactionTestCase) -> None:
    """Leave the tables after a test as migrations left them: empty, but for content types and permissions.

    Django truncates every table and makes those two anew: 0.20 s a test on Postgres and 0.09 s on SQLite, which was
    half of the suite's time. This takes 2 ms: of some forty tables a test fills six.
    """
    if connection.connection is not None and not connection.is_usable():
        connection.close()  # a test had the server end it
    with transaction.atomic(), connection.cursor() as cursor:
        for table in canary.filled_tables(cursor):
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")  # noqa: S608 - our own names
    if apps.is_installed("cachalot"):  # it does not see what is written by SQL
        import_module("cachalot.api").invalidate(
            *settings.CACHALOT_ONLY_CACHABLE_TABLES, cache_alias=settings.CACHALOT_CACHE
        )


@pytest.fixture
async def own_connection_closed() -> AsyncIterator[None]:
    """Close what an async test opened by itself: each event loop has a thread, hence a connection, of its own."""
    yield
    await sync_to_async(connections.close_all)()


@pytest.fixture(autouse=True)
def _fresh_caches() -> Iterator[None]:
    """Give every test empty caches and no keys in memory, so that none depends on its neighbour.

    Nor does an outage of Redis that a neighbour has seen, on a busy machine or on purpose, last into the next test.
    The cache is held until the test is over. A setting that makes another one would drop the connection of the first
    unclosed, and the garbage collector would report that in a later test.
    """
    held = token_cache()
    if held.remote is not None:
        held.remote.breaker.succeeded()
    held.clear()
    cache.clear()
    key_store().forget()
    yield
    del held


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """An empty folder whose path leaves room for a socket's name: of some 100 bytes, pytest's own may take all."""
    with tempfile.TemporaryDirectory(prefix="ironauth-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def throttled(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Throttles on, and counts that no other test has touched, in Redis too: another key makes other MACs.

    No try deletes what counts no more, as one in a hundred does: a test that turns the clock back has use for it yet.
    """
    monkeypatch.setattr(lockout, "_PRUNE_ONE_IN", sys.maxsize)
    settings.IRONAUTH_THROTTLE = True
    settings.SECRET_KEY = secrets.token_urlsafe(48)


@pytest.fixture
def still_clock(monkeypatch: pytest.MonkeyPatch) -> float:
    """A clock that stands still in the middle of a step of one-time codes; the unix second it shows."""
    now = float(int(clock.unix()) // 30 * 30 + 15)
    monkeypatch.setattr(clock, "_source", lambda: now)
    return now


@functools.cache
def _pairs(alg: str) -> tuple[tuple[PublicJwk, bytes], ...]:
    """Two pairs for the whole run: making one of RSA takes a tenth of a second."""
    return tuple(new_key_pair(alg) for _ in range(2))


def _store_keys(family: Family, alg: str, made_at: datetime) -> str:
    """Leave the active and the next key of a family as ``create_signing_key`` does; return the active one's kid.

    The command itself takes 7 ms, 12 on Postgres, which every second test would pay. Tests of the keys call it.
    """
    keys = []
    for state, activated_at, (jwk, private) in zip(
        (SigningKey.State.ACTIVE, SigningKey.State.NEXT), (made_at, None), _pairs(alg), strict=True
    ):
        master_key_id, sealed = seal(private, jwk.kid)
        keys.append(SigningKey(
            kid=jwk.kid, alg=jwk.alg, family=family.value, public_jwk=msgspec.to_builtins(jwk), state=state,
            private_encrypted=sealed, master_key_id=master_key_id, created_at=made_at, activated_at=activated_at,
        ))  # fmt: skip
    SigningKey.objects.bulk_create(keys)
    invalidate(KEYS_TAG)
    return keys[0].kid


@pytest.fixture
def signing_key(transactional_db: None) -> str:
    """Make the keys that access tokens are signed with; the active one's kid."""
    return _store_keys(Family.ED25519, settings.IRONAUTH_JWT_ALG, clock.now())


@pytest.fixture
def rs256_key(db: None) -> str:
    """Make the keys that ID tokens of new clients are signed with; the active one's kid."""
    return _store_keys(Family.RS256, Family.RS256.value, clock.now() - timedelta(days=1))


@pytest.fixture
async def api() -> AsyncIterator[httpx.AsyncClient]:
    """A client that speaks to the whole ASGI application in this process: guard, lanes, views."""
    transport = httpx.ASGITransport(app=cast("Any", application), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
        yield client


@pytest.fixture
def new_email() -> Callable[[], str]:
    """A source of addresses no other test has used."""
    return lambda: f"person-{os.urandom(6).hex()}@example.com"


@pytest.fixture
async def member(api: httpx.AsyncClient, new_email: Callable[[], str], signing_key: str) -> dict[str, Any]:
    """A person who has signed up: the User answer and, under ``password``, the password."""
    email = new_email()
    answer = await api.post("/api/v1/access/signup", json={"email": email, "password": PASSWORD, "name": "Mia"})
    assert answer.status_code == 201, answer.text
    return {**answer.json(), "password": PASSWORD}


@pytest.fixture
async def pair(api: httpx.AsyncClient, member: dict[str, Any]) -> dict[str, Any]:
    """The TokenPair of ``member`` after a sign-in at another worker: this process has still to verify its token."""
    answer = await api.post("/api/v1/access/signin", json={"email": member["email"], "password": member["password"]})
    assert answer.status_code == 200, answer.text
    token_cache().clear()
    return dict(answer.json())


def bearer(pair: dict[str, Any]) -> dict[str, str]:
    """Return the request header that presents the pair's access token."""
    return {"Authorization": f"Bearer {pair['access_token']}"}


def process_environment(**changes: str) -> dict[str, str]:
    """Return the environment in which a real ``manage.py`` process works on the test storage."""
    name = settings.DATABASES["default"]["NAME"]  # pytest-django's test database
    if settings_test.STORAGE == "postgres":
        url = f"postgres://postgres@127.0.0.1:{settings_test.POSTGRES_PORT}/{name}"
    else:
        url = f"sqlite:///{name}"
    settings_module = {"DJANGO_SETTINGS_MODULE": "ironauth.settings"}
    return {**os.environ, **settings_test.ENVIRONMENT, "DATABASE_URL": url, **changes, **settings_module}


@pytest.fixture
def migrated_file(transactional_db: None, tmp_path: Path) -> Path:
    """A database of this test alone, as the migrations leave it. For tests of the run on SQLite."""
    file = tmp_path / "data" / "serve.sqlite3"
    file.parent.mkdir(mode=0o700)
    shutil.copyfile(MIGRATED, file)
    file.chmod(0o600)
    return file


ServeProcess = Callable[..., str]


def _serving(log: Path, *arguments: str, port: int, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a real ``manage.py serve`` process and return it once it answers; RuntimeError with its log if not."""
    command = [sys.executable, "manage.py", "serve", "--port", str(port), *arguments]
    with log.open("wb") as written:
        process = subprocess.Popen(command, cwd=settings.BASE_DIR, env=environment, stdout=written, stderr=written)
    base = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + SERVER_START_S
    with httpx.Client(timeout=1) as client:  # one: each client reads the system's certificates, which takes 20 ms
        while time.monotonic() < deadline and process.poll() is None:
            try:
                if client.get(f"{base}/ping").status_code == 200:
                    return process
            except httpx.TransportError:
                time.sleep(0.1)
    _ended(process)
    raise RuntimeError(f"no server on {base}: {log.read_text()[-3000:]}")


def _ended(*running: subprocess.Popen[bytes]) -> None:
    for process in running:
        process.terminate()
    for process in running:
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def served(log: Path, *arguments: str, port: int, environment: dict[str, str]) -> Iterator[None]:
    """Run a real server process in an environment of ``process_environment``, for longer than a test."""
    process = _serving(log, *arguments, port=port, environment=environment)
    try:
        yield
    finally:
        _ended(process)


@pytest.fixture
def serve_process(transactional_db: None, tmp_path: Path) -> Iterator[ServeProcess]:
    """A factory of real ``manage.py serve`` processes on the test storage; returns each one's base URL."""
    running: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, port: int = 0, **environment: str) -> str:
        port = port or settings_test._free_port()  # noqa: SLF001 - the suite's own module
        log = tmp_path / f"serve-{port}.log"
        running.append(_serving(log, *arguments, port=port, environment=process_environment(**environment)))
        return f"http://127.0.0.1:{port}"

    yield start
    _ended(*running)
    connections.close_all()
