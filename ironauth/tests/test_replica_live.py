"""A real streaming replica of the tests' own Postgres: its reads on both sides of the bound, and while it is lost."""

import asyncio
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import httpx
import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Permission
from django.db import connection, connections
from pytest_django import Settings
from structlog.testing import capture_logs

from accounts.access.rights import VIEW_USERS
from accounts.audit.exporting import Format
from accounts.privacy import services as privacy
from accounts.staff import services as staff
from accounts.users.models import User
from accounts.users.paging import DEFAULT_ORDERING
from conftest import PASSWORD, bearer
from ironauth import settings_test
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core.errors import PermissionDenied
from ironauth.infrastructure.db.replica import _POSITION, _REPLAYED
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.models import Invalidation
from ironauth.tests.services import PrivatePostgres, find_binary
from tokens.sessions import units as session_units
from tokens.sessions.models import Session
from tokens.tests.browser import REFRESH, SIGNIN, me

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.only_postgres]

BOUND_S = 1.0  # less than is allowed to anybody else, so that the tests need not wait for long
TIMEOUT_S = 4.0  # the primary too answers within it, on a machine that other tests keep busy
PATIENCE_S = 20.0
WAL_PAGE_BYTES = 8192


class Standby(PrivatePostgres):
    """A copy of the primary that follows it."""

    def copy(self) -> None:
        """Make it."""
        self.folder.mkdir()
        user = "postgres" if os.geteuid() == 0 else None
        if user:
            shutil.chown(self.folder, user)
        program = find_binary("pg_basebackup", "postgresql-client")
        options = ["-R", "-X", "stream", "-c", "fast", "--no-sync", "-D", str(self.folder / "data")]
        primary = ["-h", "127.0.0.1", "-p", str(settings_test.POSTGRES_PORT), "-U", "postgres"]
        subprocess.run([program, *primary, *options], check=True, user=user, cwd=self.folder)

    def children(self) -> list[int]:
        """Return its processes, which answer; the one that starts them goes on accepting connections."""
        assert self.process
        found = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=True)
        return [int(pid) for pid in found.stdout.split()]

    def kill(self) -> None:
        """End all of its processes at once, as a machine that loses its power."""
        children = self.children()
        self.stop(signal.SIGKILL)
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def ask(self, query: str) -> Any:
        """Return the first column of what the replica answers."""
        name = connection.settings_dict["NAME"]
        there = f"host=127.0.0.1 port={self.port} user=postgres dbname={name}"
        with psycopg.connect(there, autocommit=True) as session:
            row = session.execute(query).fetchone()
            return row[0] if row else None


@pytest.fixture(scope="module")
def standby(django_db_setup: None) -> Iterator[Standby]:
    """A replica of the whole run's Postgres."""
    made = Standby(settings_test.RUN_FOLDER / "replica", settings_test._free_port())
    made.copy()
    with made:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            try:
                with psycopg.connect(f"host=127.0.0.1 port={made.port} user=postgres dbname=postgres"):
                    break
            except psycopg.OperationalError:  # it has still to come as far as the copy
                time.sleep(0.05)
        yield made


@pytest.fixture
def replica(standby: Standby, settings: Settings) -> Iterator[Standby]:
    """The replica as the server uses it; it follows, and runs, whatever the test before did."""
    settings.IRONAUTH_DATABASE_TIMEOUT_S = TIMEOUT_S
    settings.IRONAUTH_REPLICA_MAX_LAG_S = BOUND_S
    primary = connections.settings["default"]
    settings.IRONAUTH_REPLICA = {**primary, "PORT": standby.port}
    yield standby
    if standby.process is None:
        standby.start()
    standby.process.send_signal(signal.SIGCONT)  # type: ignore[union-attr]  # it has just been started
    standby.ask("SELECT pg_wal_replay_resume()")


def seen() -> tuple[bool, int]:
    """Return whether a replica answers, and how many rows there are."""
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT pg_is_in_recovery()")
        (recovers,) = cursor.fetchone()
    return recovers, Invalidation.objects.count()


async def until(wanted: tuple[bool, int], read: Callable[..., Awaitable[tuple[bool, int]]]) -> None:
    """Read until that is the answer."""
    deadline = time.monotonic() + PATIENCE_S
    while await read(seen) != wanted:
        assert time.monotonic() < deadline, await read(seen)
        await asyncio.sleep(0.02)


async def test_a_read_that_may_be_stale_is_the_replicas(replica: Standby) -> None:
    """`read_stale` asks the replica, and `read`, `read_dedicated` and `write` the primary."""
    pool = database()
    await pool.write(Invalidation.objects.create, tag="t")
    await until((True, 1), pool.read_stale)
    assert await pool.read(seen) == await pool.read_dedicated(seen) == await pool.write(seen) == (False, 1)


async def test_an_idle_primary_makes_no_old_replica(replica: Standby) -> None:
    """Without work on the primary the last transaction ages on a replica that has everything, and it is used."""
    pool = database()
    await pool.write(Invalidation.objects.create, tag="t")
    await until((True, 1), pool.read_stale)
    await asyncio.sleep(2 * BOUND_S)
    age = await sync_to_async(replica.ask)("SELECT extract(epoch FROM now() - pg_last_xact_replay_timestamp())")
    assert age > BOUND_S
    assert await pool.read_stale(seen) == (True, 1)


@pytest.mark.parametrize("ends", ["a file of the log", "a page of the log"])
async def test_a_replica_that_has_all_is_not_behind_the_header_of_a_page(replica: Standby, ends: str) -> None:
    """The primary counts the header of a page that has no record yet, and the replica does not."""
    switch, page = "SELECT pg_switch_wal()", "SELECT pg_logical_emit_message(false, '', repeat('x', %s))"

    def write() -> int:
        """Write up to the end, and return the primary's position."""
        with connections["default"].cursor() as cursor:

            def reached() -> int:
                cursor.execute(_POSITION)
                return int(cursor.fetchone()[0])

            if ends == "a file of the log":
                cursor.execute(page, [100])  # a switch with nothing before it does nothing
                cursor.execute(switch)
                return reached()
            before = reached()
            cursor.execute(page, [800])
            after = reached()
            header = after - before - 800  # what a record has beside its text; 24 more where it began a page
            rest = -after % WAL_PAGE_BYTES
            cursor.execute(page, [(rest if rest > 1000 else rest + WAL_PAGE_BYTES - 24) - header])
            return reached()

    def waited() -> bool:
        """Wait until the replica counts as having it, and return whether it was without another record."""
        primary = write()
        while int(replica.ask(_REPLAYED)) < primary:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return int(replica.ask("SELECT pg_last_wal_replay_lsn() - '0/0'")) < primary

    deadline = time.monotonic() + PATIENCE_S
    while not await sync_to_async(waited)():  # somebody else wrote
        assert time.monotonic() < deadline


async def test_a_replica_that_stays_behind_is_not_read_past_the_bound(replica: Standby) -> None:
    """Until the bound its old answer is good; nobody gets it later, and the primary answers until it has caught up."""
    pool = database()
    await until((True, 0), pool.read_stale)
    await sync_to_async(replica.ask)("SELECT pg_wal_replay_pause()")
    await pool.write(Invalidation.objects.create, tag="t")
    began = time.monotonic()
    answers = []
    while time.monotonic() < began + 2.5 * BOUND_S:
        asked = time.monotonic()
        answers.append((asked - began, await pool.read_stale(seen)))
    old = [at for at, answer in answers if answer == (True, 0)]
    assert {answer for _, answer in answers} == {(True, 0), (False, 1)}
    assert max(old) <= BOUND_S
    assert await pool.read_stale(seen) == (False, 1)
    await sync_to_async(replica.ask)("SELECT pg_wal_replay_resume()")
    await until((True, 1), pool.read_stale)


async def test_a_lost_replica_costs_one_request_a_moment(replica: Standby) -> None:
    """Killed, it is refused at once and the primary answers; started again it is used as before."""
    pool = database()
    await until((True, 0), pool.read_stale)
    replica.kill()
    with capture_logs() as logged:
        for _ in range(20):
            asked = time.monotonic()
            assert await pool.read_stale(seen) == (False, 0)
            assert time.monotonic() - asked < TIMEOUT_S
    assert [line["why"] for line in logged if line["event"] == "replica_not_used"] == ["away"]
    await sync_to_async(replica.start)()
    await until((True, 0), pool.read_stale)


async def test_a_frozen_replica_is_given_up_within_the_time_limit(replica: Standby) -> None:
    """The one request that finds out is answered by the primary in time; the next do not wait."""
    pool = database()
    await until((True, 0), pool.read_stale)
    children = replica.children()
    for pid in children:
        os.kill(pid, signal.SIGSTOP)
    try:
        took = []
        for _ in range(5):
            asked = time.monotonic()
            assert await pool.read_stale(seen) == (False, 0)
            took.append(time.monotonic() - asked)
    finally:
        for pid in children:
            os.kill(pid, signal.SIGCONT)
    assert TIMEOUT_S / 2 - 0.05 < took[0] < TIMEOUT_S
    assert max(took[1:]) < TIMEOUT_S / 4
    await until((True, 0), pool.read_stale)


async def test_a_unit_that_writes_has_no_place_there(replica: Standby) -> None:
    """It is an error of the program, and not run on the primary instead."""
    pool = database()
    await until((True, 0), pool.read_stale)
    with pytest.raises(RuntimeError, match="wrote to the database"):
        await pool.read_stale(Invalidation.objects.create, tag="t")
    assert await pool.read(Invalidation.objects.count) == 0


async def test_a_right_that_was_taken_away_is_gone_at_once(replica: Standby) -> None:
    """The list comes from a replica that still has the right; the right is read from the primary."""
    actor = await sync_to_async(User.objects.create_user)(email="staff@example.com", password=PASSWORD)
    label, codename = VIEW_USERS.split(".")
    right = await Permission.objects.aget(content_type__app_label=label, codename=codename)
    await actor.user_permissions.aset([right])
    await until((True, 0), database().read_stale)
    listed = {"ordering": DEFAULT_ORDERING, "page_size": 10}

    async def names() -> set[str]:
        page = await staff.list_users(actor_id=actor.id, filters=listed)
        return {user.email for user in page.rows}

    deadline = time.monotonic() + PATIENCE_S
    while await names() != {"staff@example.com"}:
        assert time.monotonic() < deadline
    await sync_to_async(replica.ask)("SELECT pg_wal_replay_pause()")
    await sync_to_async(User.objects.create_user)(email="new@example.com", password=PASSWORD)
    assert await names() == {"staff@example.com"}  # within the bound
    await actor.user_permissions.aclear()
    with pytest.raises(PermissionDenied):
        await names()


async def test_an_export_leaves_nothing_out(replica: Standby) -> None:
    """A replica that has not come as far as the beginning of the export is not asked, however little it is behind."""
    actor = await sync_to_async(User.objects.create_superuser)(email="root@example.com", password=PASSWORD)
    await until((True, 0), database().read_stale)
    await sync_to_async(replica.ask)("SELECT pg_wal_replay_pause()")
    await User.objects.filter(pk=actor.pk).aupdate(name="Renamed")
    held = await privacy.export_own_data(user_id=actor.id)
    assert [row["name"] for row in held.sections["account"]] == ["Renamed"]
    parts = await staff.export_audit_events(actor_id=actor.id, session_id=None, filters={}, form=Format.JSON_LINES)
    text = b"".join([part async for part in parts])
    assert b"data_exported" in text


async def test_no_decision_asks_a_replica_that_has_old_data(
    replica: Standby, settings: Settings, api: httpx.AsyncClient, signing_key: str
) -> None:
    """It stands still, within a bound that lets it: lists show what it has, and who may do what is the primary's."""
    settings.IRONAUTH_REPLICA_MAX_LAG_S = 60.0
    people = {
        name: await sync_to_async(User.objects.create_superuser)(email=f"{name}@example.com", password=PASSWORD)
        for name in ("root", "gone", "renewed", "out", "demoted")
    }

    async def sign_in(name: str, password: str = PASSWORD) -> httpx.Response:
        return await api.post(SIGNIN, json={"email": f"{name}@example.com", "password": password})

    pairs = {name: (await sign_in(name)).json() for name in people}
    deadline = time.monotonic() + PATIENCE_S
    while await sync_to_async(replica.ask)("SELECT count(*) FROM tokens_session") != len(people):
        assert time.monotonic() < deadline
    while not (await database().read_stale(seen))[0]:  # it is asked, and how far the primary was is known
        assert time.monotonic() < deadline
    await sync_to_async(replica.ask)("SELECT pg_wal_replay_pause()")
    await User.objects.filter(email="gone@example.com").aupdate(is_active=False)
    renewed = people["renewed"]
    await sync_to_async(renewed.set_password)("another violet otter 9")
    await renewed.asave()
    await sync_to_async(session_units.end_sessions)(
        session_ids=[uuid.UUID(pairs["out"]["session_id"])], reason=Session.RevokeReason.ENDED_BY_STAFF
    )
    demoted = people["demoted"]
    demoted.is_superuser = demoted.is_staff = False
    await demoted.asave()
    root = bearer(pairs["root"])
    listed = (await api.get("/api/v1/users", headers=root, params={"search": "gone@"})).json()
    assert [one["is_active"] for one in listed["results"]] == [True]  # what the replica has
    token_cache().clear()
    assert {name: await me(api, pair) for name, pair in pairs.items()} == {
        "root": 200, "gone": 401, "renewed": 401, "out": 401, "demoted": 200,
    }  # fmt: skip
    for name in ("gone", "renewed", "out"):
        answer = await api.post(REFRESH, json={"refresh_token": pairs[name]["refresh_token"]})
        assert answer.status_code == 401, name
    assert (await api.get("/api/v1/users", headers=bearer(pairs["demoted"]))).status_code == 403
    assert [(await sign_in(name)).status_code for name in ("gone", "renewed")] == [401, 401]
    assert (await sign_in("renewed", "another violet otter 9")).status_code == 200


async def test_a_server_in_recovery_has_no_position(replica: Standby) -> None:
    """What is asked of a primary is no error to one that came back as a replica; the bare question would be."""
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        await sync_to_async(replica.ask)("SELECT pg_current_wal_insert_lsn()")
    assert await sync_to_async(replica.ask)(_POSITION) is None


async def test_a_replica_that_was_promoted_is_believed_nothing(settings: Settings, django_db_setup: None) -> None:
    """It has rows that the primary never had, and a log that may be longer: its connections go on, and are left."""
    made = Standby(settings_test.RUN_FOLDER / f"promoted-{time.monotonic_ns()}", settings_test._free_port())
    await sync_to_async(made.copy)()
    with made:
        settings.IRONAUTH_DATABASE_TIMEOUT_S = TIMEOUT_S
        settings.IRONAUTH_REPLICA = {**connections.settings["default"], "PORT": made.port}
        pool = database()
        await until((True, 0), pool.read_stale)
        assert await sync_to_async(made.ask)("SELECT pg_promote()")
        await sync_to_async(made.ask)(
            "WITH more AS (INSERT INTO infrastructure_invalidation (tag, created_at)"
            " SELECT 'never', now() FROM generate_series(1, 50000) RETURNING 1) SELECT count(*) FROM more"
        )
        began = time.monotonic()
        while time.monotonic() < began + 2.5:
            assert await pool.read_stale(seen) == (False, 0)
