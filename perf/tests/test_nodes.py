"""Two nodes behind nginx: a short run keeps its promises, and a broken promise is seen."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ironauth.tests.services import storage_binaries_missing
from perf.nodes import report
from perf.nodes.crowd import Renewed
from perf.nodes.cuts import Cut
from perf.nodes.revocation import Lags
from perf.nodes.site import several_nodes
from perf.nodes.watch import Answers
from perf.rig import nginx
from perf.rig.processes import StartError
from perf.rig.site_setup import ROOT


def _cut(**seen: Any) -> Cut:
    """Build a cut that nobody suffered from, but for ``seen``."""
    return replace(Cut("Redis", recovery_s=5.0, refused={"GET": 0, "POST": 3}, latest_s=5.0), **seen)


@pytest.mark.parametrize(
    "broken",
    [
        {"latest_s": 5.1},
        {"recovery_s": 5.1},
        {"refused": {"GET": 1, "POST": 0}},
        {"at_b": Answers(longest_s=2.6)},
        {"at_b": Answers(Counter({500: 1}), ["GET /access/me: 500"])},
        {"at_a": Answers(Counter({503: 1}), ["GET /access/me: 503"])},
        {"people": Answers(Counter({0: 1}), ["GET /access/me: ReadError"])},
    ],
)
def test_a_cut_that_breaks_a_promise_is_told(broken: dict[str, Any]) -> None:
    """Each figure has its bound; one at the bound is kept."""
    assert report.cuts([_cut()]).kept
    assert not report.cuts([_cut(), _cut(**broken)]).kept


def test_revocation_forks_and_failed_requests_are_told() -> None:
    """A token taken for too long, a second successor, and one lost request among thousands."""
    asked = Answers(Counter({200: 9_999}))
    acts = {("sign-out", "Redis"): Lags([0.0, 5.0])}
    assert report.revocation(acts, asked).kept
    assert not report.revocation({**acts, ("new password", "Redis"): Lags([5.1])}, asked).kept
    assert report.refreshes(100, 0, asked).kept
    assert not report.refreshes(100, 1, asked).kept
    assert report.renewals([Renewed("SIGHUP", 2, 9.0, asked)]).kept
    lost = Answers(Counter({200: 9_999, 0: 1}), ["POST /access/refresh: ReadError"])
    assert not report.renewals([Renewed("SIGHUP", 2, 9.0, lost)]).kept


def test_the_runbook_names_the_nodes_to_nginx(tmp_path: Path) -> None:
    """Its command puts the file of nodes in the place of the socket, and leaves all else as it was."""
    written = (ROOT / "deploy" / "nginx" / "ironauth.conf").read_text(encoding="utf-8")
    (tmp_path / "ironauth.conf").write_text(written, encoding="utf-8")
    command = several_nodes().replace("/etc/nginx/ironauth/ironauth.conf", str(tmp_path / "ironauth.conf"))
    subprocess.run(["sh", "-euc", command], check=True)
    include, *rest = (tmp_path / "ironauth.conf").read_text(encoding="utf-8").splitlines()
    assert include == "include /etc/nginx/ironauth/upstream-nodes.conf;"
    before, found, after = written.partition("upstream ironauth {\n")
    assert found
    assert rest == (before + after.partition("\n}\n")[2]).splitlines()


@pytest.mark.live
@pytest.mark.storage
@pytest.mark.only_postgres
def test_two_nodes_keep_their_promises() -> None:
    """A short run of the command: sign-out, password and disabled account at one node end at the other; no forks."""
    missing = storage_binaries_missing()
    try:
        nginx.find()
    except StartError as error:
        missing = str(error)
    if subprocess.run(["unshare", "--net", "true"], check=False, capture_output=True).returncode:
        pytest.skip("network namespaces need root (CAP_SYS_ADMIN)")
    if missing and os.environ.get("CI") != "true":
        pytest.skip(missing)
    command = [sys.executable, "-m", "perf.nodes", "--quick", "--workers", "1", "revocation", "refresh"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pass: longest life of what was ended at the other node" in done.stdout
