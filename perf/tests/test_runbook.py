"""The runbook's page and the program that tries it agree, and what is done by hand works."""

import os
import subprocess
import sys

import pytest

from ironauth.tests.docs.blocks import text_of
from perf.failover import runbook
from perf.rig.site_setup import ROOT
from perf.tests.test_failover import missing

PAGE = text_of("docs/operate/runbook.md")


@pytest.mark.parametrize(
    "command",
    [
        f"etcdctl del {runbook.STATE}initialize",
        f"etcdctl del --prefix {runbook.STATE}",
        f"initdb -D ironauth-17 {' '.join(runbook.INITDB)}",
        f'pg_ctl -D ironauth -l restore.log -o "{runbook.ALONE}" start',
        "SELECT pg_get_wal_replay_pause_state()",
        "SELECT pg_wal_replay_resume()",
        "ETCD_FORCE_NEW_CLUSTER=true",
        "recovery_target_action = 'pause'",
        "touch ironauth/recovery.signal",
        "patronictl edit-config --pg archive_mode=on",
    ],
)
def test_the_page_has_what_the_program_does(command: str) -> None:
    """Who follows the page does what was tried."""
    assert command in PAGE


@pytest.mark.live
@pytest.mark.storage
@pytest.mark.only_postgres
def test_what_is_done_by_hand_works() -> None:
    """A machine replaced, two lost for good, ``pg_upgrade`` and a point in time lose nothing that was acknowledged."""
    if os.environ.get("IRONAUTH_TEST_CASES") != "all":
        pytest.skip("takes minutes: IRONAUTH_TEST_CASES=all")
    why = missing()
    if why and (os.environ.get("CI") != "true" or "root" in why):
        pytest.skip(why)
    done = subprocess.run(
        [sys.executable, "-m", "perf.failover.runbook"], check=False, capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("everything that was acknowledged is there") == len(runbook.REHEARSALS)
