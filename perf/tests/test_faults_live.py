"""One fault from healthy to healthy, on real servers: what the command does with all of them, in a few seconds."""

import asyncio
import os
from collections.abc import Callable

import pytest
from django.conf import settings
from django.db import connections

from ironauth import settings_test
from perf.faults.cases import CASES
from perf.faults.checker import Checker
from perf.faults.proxy import TcpProxy
from perf.faults.site import Kind, Site
from perf.faults.stage import Crowd, Outcome, Times, show
from perf.faults.wire import Connector
from perf.rig import seed
from perf.rig.processes import process_tree

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.only_postgres]

SHORT = Times(healthy=0.3, fault=1.0, after=0.1)
SESSIONS = 15


class TestSite(Site):
    """The test's own Postgres and Redis behind proxies, and two servers."""

    __test__ = False  # no class of tests

    def __init__(self, sessions: list[seed.SeededSession]) -> None:
        self.kind = Kind.WORKERS
        self.sessions = sessions
        self.to_postgres = TcpProxy(settings_test.POSTGRES_PORT)
        self.to_redis = TcpProxy(settings_test.REDIS_PORT)
        self.to_server = TcpProxy(0)
        self.to_replica = TcpProxy(0)  # there is none
        self.ports: list[int] = []

    @property
    def database_url(self) -> str:
        """Where Postgres itself listens."""
        return f"postgres://postgres@127.0.0.1:{settings_test.POSTGRES_PORT}/{settings.DATABASES['default']['NAME']}"

    def connector(self) -> Connector:
        """Return what opens connections to the servers."""
        return Connector(self.ports, self.pids)

    def pids(self) -> list[int]:
        """Return the processes this test has started."""
        return process_tree(os.getpid())[1:]


async def fault(site: TestSite, serve_process: Callable[..., str]) -> Outcome:
    """Start two servers behind the proxies and take both storages away from them for a second."""
    await site.to_postgres.start()
    await site.to_redis.start()
    url = site.database_url.replace(str(settings_test.POSTGRES_PORT), str(site.to_postgres.port))
    environment = {"DATABASE_URL": url, "REDIS_URL": f"redis://127.0.0.1:{site.to_redis.port}/0"}
    environment["IRONAUTH_THROTTLE"] = "0"
    bases = await asyncio.gather(*(asyncio.to_thread(serve_process, **environment) for _ in range(2)))
    site.ports = [int(base.rpartition(":")[2]) for base in bases]
    crowd = Crowd(site, Checker(bound_s=5.0, grace_s=10.0), people=3)
    try:
        return await show("both_lost", CASES["both_lost"], crowd, SHORT)
    finally:
        await crowd.end()
        await site.close()


def test_both_storages_lost_for_a_second_breaks_no_promise(serve_process: Callable[..., str], signing_key: str) -> None:
    """Requests are refused meanwhile, sign-outs hold, every session goes on where it was, and both servers recover."""
    seed._insert_people(SESSIONS)
    site = TestSite(seed._open_sessions(SESSIONS))
    outcome = asyncio.run(fault(site, serve_process))
    connections.close_all()
    figures = outcome.figures
    late = {"no recovery in 5 s"}  # this machine may be busy with other tests
    assert not set(figures.broken) - late, figures.details
    assert outcome.recovery_s is not None
    assert figures.unavailable > 0
    assert figures.revocations > 0
    assert figures.refreshed > 0
    assert figures.most_generations == 1
