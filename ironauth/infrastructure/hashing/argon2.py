"""One run of Argon2, in memory its thread keeps from one run to the next.

The library asks the system for its memory anew at every run, and the kernel clears 64 MiB each time: 10 ms of 78 ms at
the default cost (measured: docs/performance/settled.md). Mapping it and giving it back both stop the process's other
threads for a moment. The memory is wiped after every run as before (the library's ``clear_internal_memory``), so the
kept memory is empty. Where the system forbids making functions for C, the library's own memory is used.
"""

import ctypes
import mmap
import threading
from contextlib import suppress
from typing import Any, Final

from argon2 import Parameters, low_level
from argon2.low_level import ARGON2_VERSION, Type, ffi

#: Largest memory a thread keeps; bytes. More is given back after the run, so that no stored hash of a large cost can
#: fill the machine for longer than its own run. Four times the default cost.
KEPT_BYTES: Final = 256 * 2**20
_HUGE_PAGE: Final = 2 * 2**20  # bytes, on x86-64 and arm64 with 4 KiB pages
_OK: Final = 0
_NO_MEMORY: Final = -22  # ARGON2_MEMORY_ALLOCATION_ERROR of argon2.h


class Argon2Failure(Exception):
    """Argon2 refused the parameters; the message is the library's."""


class _Memory:
    """An anonymous mapping, in huge pages where the system has them, and where in it Argon2 may write."""

    def __init__(self, size: int) -> None:
        self.size = size
        # Private: what is shared gets no huge pages by default. What is never touched takes no memory.
        mapping = mmap.mmap(-1, size + _HUGE_PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(AttributeError, OSError):  # not Linux; a kernel without huge pages
            mapping.madvise(mmap.MADV_HUGEPAGE)
        self._start = ffi.from_buffer(mapping)  # keeps the mapping
        address = int(ffi.cast("uintptr_t", self._start))
        self.address = address + -address % _HUGE_PAGE


class _Kept(threading.local):
    memory: _Memory | None = None


_kept = _Kept()


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
    if _callbacks:
        _provide(memory_kib * 1024)
    # For an interpreter that ends meanwhile: it clears what modules and threads keep, but neither waits for a daemon
    # thread nor clears its frames. Without this, Argon2 wrote into memory that was gone, and the process died.
    in_use = _kept.memory, _kept_functions
    out = ffi.new("uint8_t[]", hash_len)
    given, salted = ffi.from_buffer("uint8_t[]", secret), ffi.from_buffer("uint8_t[]", salt)
    fields: dict[str, Any] = {"out": out, "outlen": hash_len, "pwd": given, "pwdlen": len(secret)}
    fields |= {"salt": salted, "saltlen": len(salt), "t_cost": time_cost, "m_cost": memory_kib}
    fields |= {"lanes": parallelism, "threads": parallelism, "version": version}
    context = ffi.new("argon2_context *", fields | _callbacks)
    outcome = low_level.core(context, variety.value)
    del in_use
    if _kept.memory is not None and _kept.memory.size > KEPT_BYTES:
        _kept.memory = None
    if outcome == _NO_MEMORY:
        raise MemoryError
    if outcome != _OK:
        raise Argon2Failure(low_level.error_to_str(outcome))
    return bytes(ffi.buffer(out))


def by_parameters(secret: bytes, salt: bytes, params: Parameters) -> bytes:
    """Return the raw hash at the costs of ``params``, as ``raw_hash`` does.

    Args:
        secret: what is hashed.
        salt: at least 8 bytes.
        params: costs, variety, version and length.
    """
    return raw_hash(
        secret,
        salt,
        time_cost=params.time_cost,
        memory_kib=params.memory_cost,
        parallelism=params.parallelism,
        hash_len=params.hash_len,
        variety=params.type,
        version=params.version,
    )


def _provide(size: int) -> None:
    """Give this thread ``size`` bytes, unless it has them.

    Raises:
        MemoryError: the system has none.
    """
    if _kept.memory is None or _kept.memory.size < size:
        _kept.memory = None  # before the new one: never both
        try:
            _kept.memory = _Memory(size)
        except (OSError, OverflowError) as error:
            raise MemoryError from error


def _allocate(place: Any, size: int) -> int:
    """Answer Argon2's wish for memory; without enough of it, it finds none and fails."""
    memory = _kept.memory
    if memory is not None and size <= memory.size:
        place[0] = memory.address
    return 0


def _free(_address: int, _size: int) -> None:
    """Keep it: Argon2 has wiped it."""


# Made by ctypes, whose library has its trampolines ready. cffi writes new code for each, which is forbidden to services
# without memory that is both writable and executable (systemd's MemoryDenyWriteExecute=).
_ALLOCATE: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t)
_FREE: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)


def _made_for_c() -> tuple[dict[str, Any], tuple[object, ...]]:
    """Return the fields that give Argon2 these functions, none where they may not be made, and what keeps them."""
    try:
        functions = _ALLOCATE(_allocate), _FREE(_free)
    except (MemoryError, OSError):
        return {}, ()
    allocate, free = (ctypes.cast(function, ctypes.c_void_p).value for function in functions)
    types = {"allocate_cbk": "int (*)(uint8_t **, size_t)", "free_cbk": "void (*)(uint8_t *, size_t)"}
    places = {"allocate_cbk": allocate, "free_cbk": free}
    return {name: ffi.cast(types[name], places[name]) for name in types}, functions


_callbacks, _kept_functions = _made_for_c()
