"""Argon2 in a process beside this one: the same bytes, no secret elsewhere, and no hash lost with the process."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from argon2.low_level import Type
from django.contrib.auth.hashers import check_password, make_password
from pytest_django import Settings

from ironauth.infrastructure.hashing import apart, argon2, child
from ironauth.infrastructure.hashing.apart import HashProcess
from ironauth.infrastructure.hashing.argon2 import Argon2Failure, Library, Run
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.hashing.priority import WEAKEST_NICE

SHORT = Run(b"correct horse", b"s" * 16, 1, 64, 1, 32)
#: About a second: long enough to end the process meanwhile.
LONG = Run(b"battery staple", b"t" * 16, 8, 128 * 1024, 1, 32)


@pytest.fixture
def process() -> Iterator[HashProcess]:
    """A process for two threads, of which nothing is left after the test."""
    made = HashProcess(2, 0)
    yield made
    made.close()


def pid_of(process: HashProcess) -> int:
    """Return the id of the process that computes now."""
    return process._running()._process.pid


def wait_until_gone(pid: int) -> None:
    """Wait until there is no such process."""
    until = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until, "the process did not end"
        threading.Event().wait(0.01)


@pytest.mark.parametrize(
    "run",
    [
        SHORT,
        Run(b"", bytes(range(16)), 2, 77, 1, 16),
        Run(bytes(range(256)) * 16, b"salt" * 10, 1, 64, 2, 64),
        Run(b"x", b"12345678", 1, 64, 1, 32, Type.D, 16),
    ],
    ids=["by libsodium", "an empty secret", "a long secret, two lanes", "Argon2d, version 1.0"],
)
def test_the_bytes_are_the_same(process: HashProcess, run: Run) -> None:
    """Whatever is asked comes back as it would be computed here."""
    assert child.unpacked(child.packed(run)) == run
    assert process.compute(run) == argon2.compute(run, argon2.choice().library)


def test_what_the_library_refuses_is_told(process: HashProcess) -> None:
    """Its message comes back with the error; the process goes on."""
    with pytest.raises(Argon2Failure, match="Salt is too short"):
        process.compute(SHORT._replace(salt=b"1234567"))
    assert process.compute(SHORT)


def test_without_memory_there_is_no_hash() -> None:
    """A library that finds no memory is told apart from one that refuses."""

    def fail(_run: Run) -> bytes:
        raise MemoryError

    assert child._answer(child.packed(SHORT), Library("full", lambda _run: True, fail)) == child.NO_MEMORY


def test_a_lost_process_loses_no_hash(process: HashProcess) -> None:
    """Both runs under way when it is killed are computed, in a new one."""
    expected = argon2.compute(LONG, argon2.choice().library)
    before = pid_of(process)
    with ThreadPoolExecutor(2) as threads:
        results = [threads.submit(process.compute, LONG) for _ in range(2)]
        os.kill(before, signal.SIGKILL)
        assert [each.result() for each in results] == [expected] * 2
    assert pid_of(process) != before


def test_an_answer_that_was_not_taken_reaches_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without memory for the answer the request fails; the next one gets its own, in a new process."""
    process = HashProcess(1, 0)
    try:
        before = pid_of(process)
        with monkeypatch.context() as patch:

            def receive(_line: int) -> bytes:
                raise MemoryError

            patch.setattr(child, "receive", receive)
            with pytest.raises(MemoryError):
                process.compute(SHORT)
        other = SHORT._replace(secret=b"another")
        assert process.compute(other) == argon2.compute(other, argon2.choice().library)
        assert pid_of(process) != before
    finally:
        process.close()


def test_signals_to_the_group_leave_it_alone(process: HashProcess) -> None:
    """Ctrl-C and SIGTERM are the server's to answer; it ends this process when it has finished."""
    pid = pid_of(process)
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(pid, number)
    assert process.compute(SHORT)
    assert pid_of(process) == pid
    process.close()
    wait_until_gone(pid)


def test_it_does_not_outlive_a_killed_server() -> None:
    """The lines close with the server, whatever ended that."""
    server = (
        "import os, signal\n"
        "from ironauth.infrastructure.hashing.apart import HashProcess\n"
        "process = HashProcess(2, 0)\n"
        "print(process._running()._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", server], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    wait_until_gone(int(done.stdout))


def test_it_gets_no_secret_of_the_server(process: HashProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its environment nor its arguments have any of them."""
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    folder = Path(f"/proc/{pid_of(process)}")
    names = {entry.partition(b"=")[0].decode() for entry in (folder / "environ").read_bytes().split(b"\0") if entry}
    assert names <= {*apart.INHERITED, "LC_CTYPE"}
    assert "GLIBC_TUNABLES" in names
    arguments = (folder / "cmdline").read_bytes().decode()
    secrets = [os.environ["SECRET_KEY"], os.environ["IRONAUTH_MASTER_KEYS"].partition(":")[2]]
    assert not [secret for secret in secrets if secret in arguments]


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="Linux only")
@pytest.mark.parametrize(("nice", "batch"), [(WEAKEST_NICE, True), (0, False)])
def test_its_threads_give_way(nice: int, batch: bool) -> None:
    """They have the niceness that was asked for, with SCHED_BATCH; at 0 they are like all others."""
    process = HashProcess(2, nice)
    try:
        pid = pid_of(process)
        threads = {int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()} - {pid}
        usual = os.getpriority(os.PRIO_PROCESS, 0)
        assert [os.getpriority(os.PRIO_PROCESS, thread) for thread in threads] == [max(nice, usual)] * 2
        assert {os.sched_getscheduler(thread) == os.SCHED_BATCH for thread in threads} == {batch}
    finally:
        process.close()


def test_one_that_cannot_be_started_is_tried_again(process: HashProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Meanwhile there is no memory for a hash, which is answered by 503."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/nonexistent/python")
        with pytest.raises(MemoryError):
            process.compute(SHORT)
    assert process.compute(SHORT)


def test_one_that_ends_at_once_is_tried_again(process: HashProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one is that cannot load its library."""
    with monkeypatch.context() as patch:
        patch.setattr(apart, "_PROGRAM", "pass")
        with pytest.raises(MemoryError):
            process.compute(SHORT)
    assert process.compute(SHORT)


@pytest.mark.parametrize("beside", [True, False])
def test_the_setting_decides_where_passwords_are_hashed(settings: Settings, *, beside: bool) -> None:
    """What one way made the other verifies; without the setting there is no second process."""
    made = make_password("correct horse")
    settings.IRONAUTH_HASH_APART = beside
    assert check_password("correct horse", made)
    assert not check_password("correct house", made)
    process = hash_pool()._process
    assert (process is not None and process._child is not None) is beside
