"""One run of Argon2, by the library that is the faster one here.

argon2-cffi computes every variety, version and number of lanes: with SSE2 from the package index, with all that the CPU
has where ``make argon2-native`` compiled it. libsodium (PyNaCl) needs no compiler, because it chooses its code while it
runs: AVX-512, AVX2 or SSSE3. It computes only what new passwords are hashed with by default; see `_sodium_can`. Both
return the same bytes, and release the interpreter's lock for the whole run.

A process tries both once, on known answers, and uses the one that takes less CPU time. The measurements are in
docs/decisions/argon2-libraries.md.
"""

import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, NamedTuple

from argon2 import Parameters, low_level
from argon2.exceptions import HashingError
from argon2.low_level import ARGON2_VERSION, Type

_NO_MEMORY: Final = low_level.error_to_str(-22)  # ARGON2_MEMORY_ALLOCATION_ERROR of argon2.h
#: What ``crypto_pwhash`` of libsodium takes: salts of one length, results of at least another.
_SODIUM_SALT_BYTES: Final = 16
_SODIUM_MIN_HASH_BYTES: Final = 16
_SODIUM_MIN_KIB: Final = 8  # for one lane, RFC 9106 §3.1
#: Runs of each library in the trial. The first also loads code and memory; the least counts.
_TRIES: Final = 3


class Argon2Failure(Exception):
    """Argon2 refused the parameters; the message is the library's."""


class Argon2Wrong(Exception):
    """argon2-cffi does not compute Argon2; the message has the remedy."""


class Run(NamedTuple):
    """One run of Argon2.

    Attributes:
        secret: What is hashed.
        salt: At least 8 bytes (RFC 9106 §3.1).
        time_cost: Passes over the memory.
        memory_kib: Memory of the run; KiB.
        parallelism: Lanes, each computed by a thread of its own.
        hash_len: Bytes to return.
        variety: Argon2d, Argon2i or Argon2id.
        version: Of the algorithm.
    """

    secret: bytes
    salt: bytes
    time_cost: int
    memory_kib: int
    parallelism: int
    hash_len: int
    variety: Type = Type.ID
    version: int = ARGON2_VERSION


class Library(NamedTuple):
    """A library: what it is called, which runs it can do, and how."""

    name: str
    can: Callable[[Run], bool]
    compute: Callable[[Run], bytes]


class Choice(NamedTuple):
    """What the trial found.

    Attributes:
        library: The library that does what it can; argon2-cffi does the rest.
        trial_ms: CPU time of the trial run, by library; milliseconds.
        refused: Why libsodium cannot be used at all; "" where it can.
    """

    library: Library
    trial_ms: dict[str, float]
    refused: str = ""


def _cffi(run: Run) -> bytes:
    try:
        return low_level.hash_secret_raw(
            run.secret, run.salt, run.time_cost, run.memory_kib, run.parallelism, run.hash_len, run.variety, run.version
        )
    except HashingError as error:
        if str(error) == _NO_MEMORY:
            raise MemoryError from error
        raise Argon2Failure(str(error)) from error


def _sodium_can(run: Run) -> bool:
    """Tell whether ``crypto_pwhash`` has these parameters: Argon2id 1.3, one lane, 16 bytes of salt, 16 of result."""
    return (
        (run.variety, run.version, run.parallelism) == (Type.ID, ARGON2_VERSION, 1)
        and len(run.salt) == _SODIUM_SALT_BYTES
        and run.hash_len >= _SODIUM_MIN_HASH_BYTES
        and run.time_cost >= 1
        and run.memory_kib >= _SODIUM_MIN_KIB
    )


def _sodium() -> Library:
    """Return libsodium, with its code for this CPU chosen.

    Raises:
        ImportError: PyNaCl is not installed, or not for this machine.
    """
    from nacl import bindings  # noqa: PLC0415 - it may be missing
    from nacl.exceptions import RuntimeError as SodiumFailure  # noqa: PLC0415 - as above

    def compute(run: Run) -> bytes:
        try:
            return bindings.crypto_pwhash_alg(
                run.hash_len,
                run.secret,
                run.salt,
                run.time_cost,
                1024 * run.memory_kib,
                bindings.crypto_pwhash_ALG_ARGON2ID13,
            )
        except SodiumFailure as error:  # its parameters are right (`_sodium_can`): only memory is left to fail
            raise MemoryError from error

    return Library("libsodium", _sodium_can, compute)


CFFI: Final = Library("argon2-cffi", lambda _run: True, _cffi)

#: Known answers: the least memory, one that is no multiple of four blocks, and the run that is timed. A test has two
#: more implementations compute them.
_TRIAL: Final = Run(b"measured", b"salt of a trial.", 3, 4 * 1024, 1, 32)
KNOWN: Final = (
    (Run(b"", bytes(16), 1, 8, 1, 16), "b006c1ede0239691562b55a5d1f152b9"),
    (
        Run(bytes(range(256)), bytes(range(16)), 2, 77, 1, 32),
        "b9f93c60b17f5e2096659cefe1c9015d55136a9239210e2e592f45ed25e6ff75",
    ),
    (_TRIAL, "e08e6be534c7d0188505eb9886386d7bc1a4ad689fe69b9bad76069078d3fbf1"),
)


@cache
def choice() -> Choice:
    """Return the library this process uses, chosen by the first call; a third of a hash at the default cost.

    Raises:
        Argon2Wrong: argon2-cffi fails on a known answer.
    """
    try:
        return choose([CFFI, _sodium()])
    except ImportError as error:
        found = choose([CFFI])
        return found._replace(refused=f"PyNaCl cannot be loaded ({error}): make install")


def choose(libraries: Sequence[Library], cpu_s: Callable[[], float] = time.thread_time) -> Choice:
    """Return the library that takes the least CPU time for the trial run, of those that give the known answers.

    Args:
        libraries: argon2-cffi first, which has to be right.
        cpu_s: The clock: CPU time of this thread, which other programs change little; seconds.

    Raises:
        Argon2Wrong: argon2-cffi fails on a known answer.
    """
    right = [each for each in libraries if _is_right(each)]
    if libraries[0] not in right:
        raise Argon2Wrong(f"{libraries[0].name} computes Argon2 wrongly: remove .venv and run make install")
    wrong = ", ".join(each.name for each in libraries if each not in right)
    took: dict[str, list[float]] = {each.name: [] for each in right}
    for _ in range(_TRIES):  # by turns: what slows this moment slows all of them
        for each in right:
            began = cpu_s()
            each.compute(_TRIAL)
            took[each.name].append(1000 * (cpu_s() - began))
    trial_ms = {name: round(min(times), 2) for name, times in took.items()}
    fastest = min(right, key=lambda each: trial_ms[each.name])
    return Choice(fastest, trial_ms, f"{wrong} computes Argon2 wrongly" if wrong else "")


def _is_right(library: Library) -> bool:
    try:
        return all(library.compute(run).hex() == answer for run, answer in KNOWN)
    except (MemoryError, Argon2Failure):
        return False


def by_name(name: str) -> Library:
    """Return the library that ``choice`` of another process named."""
    return CFFI if name == CFFI.name else _sodium()


def compute(run: Run, fastest: Library) -> bytes:
    """Return the result of one run, by ``fastest`` where it can; blocks without the interpreter's lock.

    Args:
        run: What is computed.
        fastest: The library that ``choice`` found.

    Raises:
        MemoryError: the system has no memory for it.
        Argon2Failure: Argon2 refuses the parameters.
    """
    return (fastest if fastest.can(run) else CFFI).compute(run)


def raw_hash(
    secret: bytes,
    salt: bytes,
    *,
    time_cost: int,
    memory_kib: int,
    parallelism: int,
    hash_len: int,
    variety: Type = Type.ID,
    version: int = ARGON2_VERSION,
) -> bytes:
    """Return the raw hash of ``secret``; blocks for the whole run, without the interpreter's lock.

    Args:
        secret: what is hashed.
        salt: at least 8 bytes (RFC 9106 §3.1).
        time_cost: passes over the memory.
        memory_kib: memory of the run; KiB.
        parallelism: lanes, each computed by a thread of its own.
        hash_len: bytes to return.
        variety: Argon2d, Argon2i or Argon2id.
        version: of the algorithm.

    Raises:
        MemoryError: the system has no memory for it.
        Argon2Failure: Argon2 refuses the parameters.
    """
    return compute(Run(secret, salt, time_cost, memory_kib, parallelism, hash_len, variety, version), choice().library)


def by_parameters(secret: bytes, salt: bytes, params: Parameters) -> bytes:
    """Return the raw hash at the costs of ``params``, as ``raw_hash`` does.

    Args:
        secret: what is hashed.
        salt: at least 8 bytes.
        params: costs, variety, version and length.
    """
    return compute(run_of(secret, salt, params), choice().library)


def run_of(secret: bytes, salt: bytes, params: Parameters) -> Run:
    """Return the run that ``params`` describe.

    Args:
        secret: What is hashed.
        salt: At least 8 bytes.
        params: Costs, variety, version and length.
    """
    return Run(
        secret,
        salt,
        params.time_cost,
        params.memory_cost,
        params.parallelism,
        params.hash_len,
        params.type,
        params.version,
    )
