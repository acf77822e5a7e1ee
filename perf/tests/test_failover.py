"""Failover: the judge finds what a failover may not do, and a short run keeps its promises."""

import asyncio
import base64
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

import msgspec
import pytest

from ironauth.tests.services import storage_binaries_missing
from perf.failover import applications, cases, report
from perf.failover.applications import Users, Way
from perf.failover.cases import Round
from perf.failover.history import LOST, NEVER, History, Operation
from perf.failover.people import Seen
from perf.http_client import Connection, Reply
from perf.load.oauth_messages import SCOPE, Application, Asking, Tokens
from perf.nodes.watch import Answers
from perf.rig.site_setup import ROOT

#: (act, generation, outcome, sent, answered); seconds.
Step = tuple[str, int, str, int, int]
OPENED: Step = ("open", 0, "ok", 0, 0)


def missing() -> str:
    """Return why the suite cannot run here; nothing where it can."""
    if subprocess.run(["unshare", "--net", "true"], check=False, capture_output=True).returncode:
        return "network namespaces need root (CAP_SYS_ADMIN)"
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
    programs = [name for name in ("patroni", "etcd", "haproxy", "nginx", "go") if not shutil.which(name, path=path)]
    return storage_binaries_missing() or (f"not installed: {', '.join(programs)}" if programs else "")


def history(*steps: Step) -> History:
    """Return the history of one session."""
    made = History()
    for act, generation, outcome, sent, answered in steps:
        made.note(Operation("s", 0, act, generation, outcome, sent, answered))
    return made


LEGAL: dict[str, tuple[Step, ...]] = {
    "one after the other": (("refresh", 0, "ok", 1, 2), ("refresh", 1, "ok", 3, 4), ("end", 2, "ok", 5, 6)),
    "the same successor twice": (("refresh", 0, "ok", 1, 3), ("refresh", 0, "ok", 2, 4)),
    "503, and it was committed": (("refresh", 0, "unknown", 1, 2), ("refresh", 0, "ok", 3, 4)),
    "503, and it was found out as used": (("refresh", 0, "unknown", 1, 2), ("refresh", 0, "refused", 30, 31)),
    "an end that was not acknowledged": (("end", 0, "unknown", 1, 2), ("refresh", 0, "refused", 3, 4)),
    "an end that never happened": (("end", 0, "unknown", 1, 2), ("refresh", 0, "ok", 3, 4)),
    "the database has what was acknowledged": (("refresh", 0, "ok", 1, 2), ("stored", 1, "ok", 3, 3)),
    "the database has what was not": (("refresh", 0, "unknown", 1, 2), ("stored", 1, "ok", 3, 3)),
    "the database has an end": (("end", 0, "ok", 1, 2), ("stored", 0, "refused", 3, 3)),
    "after the end nothing": (("end", 0, "ok", 1, 2), ("refresh", 0, "refused", 3, 4)),
}
ILLEGAL: dict[str, tuple[Step, ...]] = {
    "a committed refresh was lost": (("refresh", 0, "ok", 1, 2), ("refresh", 1, "refused", 3, 4)),
    "a sign-out was undone": (("end", 0, "ok", 1, 2), ("refresh", 0, "ok", 3, 4)),
    "a refresh was taken back": (
        ("refresh", 0, "ok", 1, 2),
        ("refresh", 1, "ok", 3, 4),
        ("refresh", 0, "ok", 5, 6),
    ),
    "a lost refresh behind tries in vain": (
        ("refresh", 0, "ok", 1, 2),
        ("refresh", 1, "unknown", 3, 4),
        ("refresh", 1, "refused", 5, 6),
        ("stored", 0, "refused", 7, 7),
    ),
    "the database has lost a sign-out": (("end", 0, "ok", 1, 2), ("stored", 0, "ok", 3, 3)),
    "the database has lost the session": (("stored", LOST, "ok", 3, 3),),
    "a session that lives was refused": (("refresh", 0, "refused", 1, 2),),
    "a sign-out of a session that lives was refused": (("end", 0, "refused", 1, 2),),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the judge is compiled once."""
    if not shutil.which("go") and os.environ.get("CI") != "true":
        pytest.skip("Go is not installed")
    return tmp_path_factory.mktemp("judge")


@pytest.mark.live
@pytest.mark.parametrize("name", LEGAL)
def test_what_may_be(name: str, folder: Path) -> None:
    """The judge takes every history that some order explains."""
    assert history(OPENED, *LEGAL[name]).judge(folder) == []


@pytest.mark.live
@pytest.mark.parametrize("name", ILLEGAL)
def test_what_may_not_be(name: str, folder: Path) -> None:
    """What no order explains is found."""
    (found,) = history(OPENED, *ILLEGAL[name]).judge(folder)
    assert found.startswith("s: ")


def test_tries_in_vain_are_one_operation() -> None:
    """It began with the first of them, and may take effect at any time; one with an answer stands by itself."""
    made = history(OPENED, ("refresh", 0, "unknown", 5, 6), ("refresh", 0, "unknown", 3, 4), ("refresh", 0, "ok", 7, 8))
    assert [(one.act, one.call, one.done) for one in made.operations] == [
        ("open", 0, 0),
        ("refresh", 3, NEVER),
        ("refresh", 7, 8),
    ]


def test_what_the_database_has_ends_each_history() -> None:
    """A session that it does not have was lost, however its id is written."""
    kept, ended, lost = (UUID(int=number) for number in (1, 2, 3))
    made = History()
    for sid in (str(kept), ended.hex, str(lost)):
        made.note(Operation(sid, 0, "open", 0, "ok", 0, 0))
    made.stored({kept: (4, False), ended: (5, True)})
    assert {(UUID(one.session), one.generation, one.outcome) for one in made.operations if one.act == "stored"} == {
        (kept, 4, "ok"),
        (ended, 5, "refused"),
        (lost, LOST, "ok"),
    }


def test_the_gap_begins_with_the_failure() -> None:
    """A refresh that was sent before it counts for nothing; without any afterwards there is no end."""
    assert cases.longest_gap([(0.0, 10.5), (30.0, 31.0), (31.0, 31.2)], 10.0) == 21.0
    assert cases.longest_gap([(0.0, 10.5)], 10.0) == float("inf")


def test_each_broken_promise_is_told() -> None:
    """A slow failover, a lost write, a fork, a token that lives on, a wrong answer and a write of a former primary."""
    kept = Round("primary", "libpq", 24.0, Answers(), Seen())
    assert report.finding([kept], "").kept
    for broken in (
        Round("primary", "libpq", 26.0, Answers(), Seen()),
        Round("primary", "libpq", 1.0, Answers(), Seen(), illegal=["s"]),
        Round("primary", "libpq", 1.0, Answers(), Seen(forks=1)),
        Round("primary", "libpq", 1.0, Answers(), Seen(latest_s=5.1)),
        Round("primary", "libpq", 1.0, Answers(wrong=["500"]), Seen()),
        Round("cut", "libpq", 1.0, Answers(), Seen(), wrote=["INSERT 0 1"]),
    ):
        assert not report.finding([broken], "").kept


def test_a_run_that_ended_early_is_no_success() -> None:
    """What was seen until then is told, and why there is no more; without a reason it is a whole run."""
    seen = [Round("primary", "libpq", 1.0, Answers(), Seen())]
    for why in ("", "the cluster has no primary"):
        found = report.finding(seen, "", ended=why)
        assert found.kept is not bool(why)
        assert len(found.tables[0].rows) == 1
        assert any(why and why in note for note in found.notes) is bool(why)


def test_what_asynchronous_replication_loses_is_its_price() -> None:
    """Lost writes are counted in a table of their own and break nothing; an error that is no refusal does."""
    lost = {"illegal": ["s"], "answers": Answers(wrong=["GET /api/v1/access/me: 401 {}"])}
    seen = Seen(forks=1, latest_s=7.0)
    found = report.finding([Round("asynchronous", "libpq", 1.0, seen=seen, **lost)], "")  # type: ignore[arg-type]
    assert found.kept
    (table,) = found.tables
    assert table.title.startswith("The price")
    assert table.rows[0][-1] == "1"
    for wrong in ("POST /api/v1/access/refresh: 500 {}", "GET /api/v1/access/me: TimeoutError"):
        assert not report.finding([Round("asynchronous", "libpq", 1.0, Answers(wrong=[wrong]), seen)], "").kept
    refused = Round("primary", "libpq", 1.0, Answers(wrong=["GET /api/v1/access/me: 401 {}"]), Seen())
    assert not report.finding([refused], "").kept


@pytest.mark.parametrize(("took_s", "kept"), [(19.9, True), (20.1, False)])
def test_without_a_majority_of_etcds_writes_end(took_s: float, kept: bool) -> None:
    """A primary that nobody can depose takes them for a ttl at the longest."""
    assert report.finding([Round("etcd_majority", "libpq", 1.0, Answers(), Seen(), took_s=took_s)], "").kept is kept


def _tokens(generation: int, mark: bytes) -> bytes:
    """Return an answer of the token endpoint."""
    claims = base64.urlsafe_b64encode(b'{"sid":"s"}').decode()
    refresh = base64.urlsafe_b64encode(bytes(16) + generation.to_bytes(4, "big") + mark).decode()
    made = Tokens(f"h.{claims}.s", "Bearer", 60, SCOPE, refresh, "")
    return msgspec.json.encode(made)


class _Scripted(Connection):
    """Says what it was told to say."""

    def __init__(self, *replies: Reply) -> None:
        super().__init__(("127.0.0.1", 9))
        self._replies = [*replies]

    async def send(self, *_: object, **__: object) -> Reply:
        """Return the next of its replies."""
        return self._replies.pop(0)


FIRST = Reply(200, {}, _tokens(0, b"a"))
CODE_CASES: dict[str, tuple[Reply, int, list[tuple[str, str]]]] = {
    "its session ends": (Reply(400, {}, b""), 0, [("open", "ok"), ("end", "ok")]),
    "or may have ended": (Reply(503, {}, b""), 0, [("open", "ok"), ("end", "unknown")]),
    "two sessions are a fork": (Reply(200, {}, _tokens(0, b"b")), 1, [("open", "ok"), ("end", "unknown")]),
}


@pytest.mark.parametrize("name", CODE_CASES)
def test_a_code_that_is_presented_twice(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is worth one session at most, which its second use ends."""
    second, forks, noted = CODE_CASES[name]
    monkeypatch.setattr(applications, "subject_in", lambda *_, **__: "somebody")
    history, seen = History(), Seen()
    users = Users(SimpleNamespace(client={}), history, Answers(), seen)  # type: ignore[arg-type]
    way = Way(Application("c", "s", "i", {}), _Scripted(FIRST), _Scripted(second), 0, 0)
    _, lives = asyncio.run(users.redeemed(way, {}, Asking.anew(), twice=True))
    assert not lives
    assert seen.forks == forks
    assert [(one.act, one.outcome) for one in history.operations] == noted


def test_the_kit_names_a_patroni_that_looks_before_it_takes_the_key() -> None:
    """3.0.2 takes the key in etcd from its successor; the unit finds the one that is installed by the kit's command."""
    kit = ROOT / "deploy" / "patroni"
    wanted = (kit / "requirements.txt").read_text(encoding="utf-8")
    version = re.search(r"^patroni==(\d+)\.(\d+)\.(\d+) \\\n +--hash=sha256:[0-9a-f]{64}$", wanted, re.MULTILINE)
    assert version is not None
    assert tuple(map(int, version.groups())) >= (3, 0, 3)
    (target,) = re.findall(r"--target (\S+)", wanted)
    assert f"PYTHONPATH={target}" in (kit / "node.env").read_text(encoding="utf-8").splitlines()


@pytest.mark.live
@pytest.mark.storage
@pytest.mark.only_postgres
def test_a_failover_keeps_its_promises() -> None:
    """A short run of the command: the primary's machine is killed, and a switchover; no history is unexplained."""
    why = missing()
    if why and (os.environ.get("CI") != "true" or "root" in why):
        pytest.skip(why)
    command = [sys.executable, "-m", "perf.failover", "--quick", "switchover", "primary"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    said = done.stdout + done.stderr
    assert ", 0 flows" not in said, said
    # How long it takes is for `make failover`, on a machine with nothing else to do.
    assert "pass: histories that are not linearizable" in said, said
    short = [line for line in said.splitlines() if "FALLS SHORT" in line and "no committed refresh" not in line]
    assert not short, said
