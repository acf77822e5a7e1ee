"""Argon2 by either library: the same bytes, the faster one, and argon2-cffi where the other cannot."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
from argon2 import exceptions, low_level
from argon2.low_level import Type, hash_secret_raw
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from django.conf import settings
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from nacl import bindings
from nacl import exceptions as nacl_exceptions

from ironauth.infrastructure.hashing import argon2 as argon2_raw
from ironauth.infrastructure.hashing import argon2_build, argon2_log
from ironauth.infrastructure.hashing.argon2 import (
    CFFI,
    KNOWN,
    Argon2Failure,
    Argon2Wrong,
    Choice,
    Library,
    Run,
    choose,
    raw_hash,
)

SODIUM = argon2_raw._sodium()
RUN = Run(b"secret", b"s" * 16, 1, 64, 1, 32)
MAKER = "make argon2-native"


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have this library chosen, as if its trial had been the shortest."""

    def choose_it(library: Library, refused: str = "") -> None:
        found = Choice(library, {library.name: 1.0}, refused)
        for module in (argon2_raw, argon2_build, argon2_log):
            monkeypatch.setattr(module, "choice", lambda: found)

    return choose_it


@pytest.fixture(autouse=True)
def _forget_the_build() -> Iterator[None]:
    """Let no test see the build another one has looked up."""
    argon2_build.build.cache_clear()
    yield
    argon2_build.build.cache_clear()


def by_openssl(run: Run) -> bytes:
    """Compute with a third implementation."""
    return Argon2id(
        salt=run.salt, length=run.hash_len, iterations=run.time_cost, lanes=run.parallelism, memory_cost=run.memory_kib
    ).derive(run.secret)


@pytest.mark.parametrize(("run", "answer"), KNOWN)
def test_known_answers_are_those_of_three_implementations(run: Run, answer: str) -> None:
    """What a library is tried with is right itself."""
    assert {CFFI.compute(run).hex(), SODIUM.compute(run).hex(), by_openssl(run).hex()} == {answer}


@pytest.mark.parametrize("library", [CFFI, SODIUM], ids=lambda each: each.name)
@hypothesis_settings(deadline=None)  # others take the processor meanwhile
@given(
    st.builds(
        Run,
        st.binary(max_size=300),
        st.binary(min_size=8, max_size=64) | st.binary(min_size=16, max_size=16),
        st.integers(1, 3),
        st.integers(32, 300),
        st.sampled_from([1, 1, 2, 4]),
        st.integers(4, 80),
        st.sampled_from([Type.ID, *Type]),
        st.sampled_from([19, 16]),
    )
)
def test_answers_are_the_reference_implementations(library: Library, run: Run) -> None:
    """For any input the result is what argon2-cffi computes, whichever library is the faster one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argon2_raw, "choice", lambda: Choice(library, {}))
        assert raw_hash(**run._asdict()) == hash_secret_raw(*run)


@pytest.mark.parametrize(
    ("change", "can"),
    [
        ({}, True),
        ({"salt": bytes(15)}, False),
        ({"salt": bytes(17)}, False),
        ({"hash_len": 16}, True),
        ({"hash_len": 15}, False),
        ({"memory_kib": 8}, True),
        ({"memory_kib": 7}, False),
        ({"time_cost": 0}, False),
        ({"parallelism": 2}, False),
        ({"variety": Type.I}, False),
        ({"variety": Type.D}, False),
        ({"version": 16}, False),
    ],
)
def test_libsodium_is_asked_for_what_it_can_do(change: dict[str, Any], can: bool) -> None:
    """On both sides of each of its bounds; what it is given, it computes."""
    run = RUN._replace(**change)
    assert SODIUM.can(run) is can
    if can:
        assert SODIUM.compute(run) == CFFI.compute(run)


def test_what_the_faster_library_cannot_do_goes_to_the_other(use: Callable[..., None]) -> None:
    """Two lanes are argon2-cffi's; one lane is not."""
    asked: list[int] = []

    def compute(run: Run) -> bytes:
        asked.append(run.parallelism)
        return SODIUM.compute(run)

    use(SODIUM._replace(compute=compute))
    for lanes in (1, 2):
        made = raw_hash(b"secret", b"s" * 16, time_cost=1, memory_kib=64, parallelism=lanes, hash_len=32)
        assert made == CFFI.compute(RUN._replace(parallelism=lanes))
    assert asked == [1]


class Cpu:
    """A clock of CPU time that only the libraries made here advance."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def library(self, name: str, *costs: float, wrong: bool = False) -> Library:
        """Return one that answers by argon2-cffi and takes these seconds for trial runs, the last for all after."""
        left = list(costs)

        def compute(run: Run) -> bytes:
            if run == argon2_raw._TRIAL:
                self.now += left.pop(0) if len(left) > 1 else left[0]
            made = CFFI.compute(run)
            return made[::-1] if wrong and run == KNOWN[1][0] else made

        return Library(name, lambda _run: True, compute)


def test_the_least_cpu_time_decides() -> None:
    """By the best of the tries, whose order is by turns: a slow first run (memory, code) counts for nothing."""
    cpu = Cpu()
    found = choose([cpu.library("one", 9, 0.003), cpu.library("two", 9, 9, 0.002)], cpu)
    assert (found.library.name, found.trial_ms, found.refused) == ("two", {"one": 3.0, "two": 2.0}, "")
    found = choose([cpu.library("one", 0.002), cpu.library("two", 0.002)], cpu)
    assert found.library.name == "one", "nothing gained: the library that can do everything"


def test_a_library_with_a_wrong_answer_is_not_used() -> None:
    """However fast it is: one wrong answer of three is enough."""
    cpu = Cpu()
    found = choose([cpu.library("one", 1), cpu.library("two", 0.001, wrong=True)], cpu)
    assert (found.library.name, list(found.trial_ms)) == ("one", ["one"])
    assert found.refused == "two computes Argon2 wrongly"
    with pytest.raises(Argon2Wrong, match=r"one computes Argon2 wrongly: remove \.venv"):
        choose([cpu.library("one", 1, wrong=True), cpu.library("two", 1)], cpu)


def test_a_library_that_fails_is_not_used() -> None:
    """A trial that ends in an error is a wrong answer."""

    def fail(_run: Run) -> bytes:
        raise MemoryError

    assert choose([CFFI, Library("two", lambda _run: True, fail)]).library is CFFI


def test_without_pynacl_the_other_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without its wheel loses time, nothing else."""

    def missing() -> Library:
        raise ImportError("no wheel")

    monkeypatch.setattr(argon2_raw, "_sodium", missing)
    found = argon2_raw.choice.__wrapped__()
    assert found.library is CFFI
    assert "no wheel" in found.refused
    assert "make install" in found.refused


def test_the_choice_of_this_process_is_one_of_both() -> None:
    """Tried for real: both give the known answers, and were timed; the second call is free."""
    found = argon2_raw.choice()
    assert set(found.trial_ms) == {"argon2-cffi", "libsodium"}
    assert found.refused == ""
    assert found.trial_ms[found.library.name] == min(found.trial_ms.values())
    assert argon2_raw.choice() is found


@pytest.mark.parametrize(
    ("library", "compiled", "build"),
    [(SODIUM, True, "libsodium"), (SODIUM, False, "libsodium"), (CFFI, True, "native"), (CFFI, False, "wheel")],
)
def test_the_log_names_the_build(
    use: Callable[..., None], monkeypatch: pytest.MonkeyPatch, library: Library, compiled: bool, build: str
) -> None:
    """With what would be faster, unless nothing would; and no warning where both could be tried."""
    use(library)
    monkeypatch.setattr(argon2_build, "is_native", lambda: compiled)
    with structlog.testing.capture_logs() as lines:
        argon2_log.choose()
    (line,) = lines
    assert (line["event"], line["argon2"]) == ("argon2_chosen", build)
    assert ("remedy" in line) is (build != "native") is (MAKER in argon2_build.described())


def test_a_fallback_is_a_warning(use: Callable[..., None]) -> None:
    """It says why, and so does what describes the build."""
    use(CFFI, refused="PyNaCl cannot be loaded")
    with structlog.testing.capture_logs() as lines:
        argon2_log.choose()
    assert [(line["event"], line["log_level"]) for line in lines][1:] == [("argon2_fallback", "warning")]
    assert lines[1]["reason"] == "PyNaCl cannot be loaded"
    assert argon2_build.described().endswith(". PyNaCl cannot be loaded")


def test_parameters_argon2_refuses(use: Callable[..., None]) -> None:
    """A salt of eight bytes is the least; what the library refuses is refused with its words."""
    for library in (CFFI, SODIUM):
        use(library)
        assert raw_hash(b"secret", bytes(8), time_cost=1, memory_kib=64, parallelism=1, hash_len=16)
        with pytest.raises(Argon2Failure, match="Salt is too short"):
            raw_hash(b"secret", bytes(7), time_cost=1, memory_kib=64, parallelism=1, hash_len=16)


def test_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without memory is a MemoryError of either library, not a wrong password."""

    def refuse(*_args: object) -> bytes:
        raise exceptions.HashingError("Memory allocation error")

    def fail(*_args: object) -> bytes:
        raise nacl_exceptions.RuntimeError("Unexpected failure in key derivation")

    monkeypatch.setattr(low_level, "hash_secret_raw", refuse)
    monkeypatch.setattr(bindings, "crypto_pwhash_alg", fail)
    for library in (CFFI, SODIUM):
        with pytest.raises(MemoryError):
            library.compute(RUN)


SHORT_OF_MEMORY = """
import resource
from ironauth.infrastructure.hashing.argon2 import CFFI, Run, _sodium
sodium = _sodium()
resource.setrlimit(resource.RLIMIT_AS, (600 * 2**20, 600 * 2**20))
for library in (CFFI, sodium):
    try:
        library.compute(Run(b"s", b"s" * 16, 1, 2**20, 1, 32))
    except MemoryError:
        print(library.name)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_a_process_short_of_memory() -> None:
    """Both libraries say so, asked for a gigabyte in a process that may have less."""
    said = subprocess.run(
        [sys.executable, "-c", SHORT_OF_MEMORY], cwd=settings.BASE_DIR, capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ["argon2-cffi", "libsodium"]


@pytest.mark.parametrize("library", [CFFI, SODIUM], ids=lambda each: each.name)
def test_the_interpreter_goes_on_meanwhile(library: Library) -> None:
    """A run releases the interpreter's lock: another thread takes many turns while one run lasts."""
    began, ended = threading.Event(), threading.Event()

    def hash_once() -> None:
        began.set()
        library.compute(RUN._replace(time_cost=20, memory_kib=64 * 1024))
        ended.set()

    thread = threading.Thread(target=hash_once)
    turns = 0
    thread.start()
    began.wait()
    while not ended.is_set():
        time.sleep(0.001)  # gives the lock back; with a run that keeps it this returns once, after the run
        turns += 1
    thread.join()
    assert turns > 5


@pytest.mark.skipif(sys.platform != "linux", reason="a confinement of Linux")
def test_it_hashes_where_no_code_may_be_written() -> None:
    """Under what systemd's MemoryDenyWriteExecute= does (prctl PR_SET_MDWE; kernels since 6.3 know it)."""
    script = (
        "import ctypes; ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)\n"
        "from ironauth.infrastructure.hashing.argon2 import choice\n"
        "print(choice().refused, len(choice().trial_ms))"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], cwd=settings.BASE_DIR, capture_output=True, text=True, check=True
    )
    assert said.stdout == " 2\n"


ENDS_MEANWHILE = """
import sys, threading, time
from ironauth.infrastructure.hashing import argon2
library = argon2.CFFI if sys.argv[1] == "argon2-cffi" else argon2._sodium()

def hash_on():
    while True:
        library.compute(argon2.Run(b"p" * 16, b"s" * 16, 20, 65536, 1, 32))

for _ in range(2):
    threading.Thread(target=hash_on, daemon=True).start()
time.sleep(0.5)
"""


@pytest.mark.parametrize("library", ["argon2-cffi", "libsodium"])
def test_a_process_may_end_while_its_threads_hash(library: str) -> None:
    """What Argon2 writes to stays until nobody writes: the process ends well, not by a fault of its memory."""
    ended = subprocess.run([sys.executable, "-c", ENDS_MEANWHILE, library], timeout=60, check=False)
    assert ended.returncode == 0
