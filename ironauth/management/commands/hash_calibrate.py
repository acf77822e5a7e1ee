"""``manage.py hash_calibrate``: which Argon2id cost this machine can afford for a sign-in of a given length."""

import re
from argparse import ArgumentParser
from typing import Any, NamedTuple

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from ironauth.config.checks import ARGON2_FLOORS
from ironauth.config.table import LIMITS
from ironauth.infrastructure.core.stdio import ignore_broken_pipe
from ironauth.infrastructure.hashing import argon2_build

ROUNDS = 3  # hashes of each thread for one figure; the median counts
TARGET_MS, MAX_TARGET_MS = 100, 5_000
MEMORY_MIB = 64
DEFAULTS = {"target_ms": TARGET_MS, "memory_mib": MEMORY_MIB, "threads": "IRONAUTH_HASH_THREADS"}
NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
TOLERANCE = 1.05  # a cost that takes 5 % more than asked for is still meant
SMALLER_MIB = (256, 128, 64, 46, 32, 19, 12, 9, 7)  # memory costs that are tried; OWASP's pairs among them


class Candidate(NamedTuple):
    """A cost and what it takes here."""

    memory_kib: int
    time_cost: int
    took_ms: float


class Command(BaseCommand):
    """Measure, and propose the costliest setting within the time."""

    help = (
        "Propose Argon2id parameters for this machine; measures with every hash thread busy, as a rush of sign-ins is."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--target-ms", default=TARGET_MS, help=f"time of one hash (default: {TARGET_MS})")
        parser.add_argument("--memory-mib", default=MEMORY_MIB, help=f"most memory of one hash (default: {MEMORY_MIB})")
        parser.add_argument("--threads", default=settings.IRONAUTH_HASH_THREADS, help="hash threads")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Print every candidate and the proposal; raises ``CommandError`` for options out of range.

        Ends quietly, as other commands do, when the reader of its output (``| head -4``) has left.
        """
        limit = LIMITS["IRONAUTH_ARGON2_MEMORY_KIB"]
        target_ms = _number(options, "target_ms", 1, MAX_TARGET_MS)
        memory_mib = _number(options, "memory_mib", limit.least / 1024, limit.most / 1024, whole=True)
        threads = _number(options, "threads", 1, LIMITS["IRONAUTH_HASH_THREADS"].most, whole=True)
        with ignore_broken_pipe(self.stdout):
            self._calibrate(target_ms, int(memory_mib), int(threads))

    def _calibrate(self, target_ms: float, memory_mib: int, threads: int) -> None:
        build = argon2_build.described()
        self.stdout.write(f"Argon2: {build}. {threads} threads hash at once, p=1, wanted: {target_ms:.0f} ms.\n\n")
        self._print("memory   t   a hash    all threads   memory in all")
        memories = [memory_mib, *(mib for mib in SMALLER_MIB if mib < memory_mib)]
        candidates = [self._candidate(mib * 1024, target_ms, threads) for mib in memories]
        affordable = [each for each in candidates if each.took_ms <= target_ms * TOLERANCE]
        if not affordable:
            best = min(candidates, key=lambda each: each.took_ms)
            self.stdout.write(f"\nNo cost above the OWASP floor takes {target_ms:.0f} ms here; the cheapest is:")
        else:
            best = affordable[0]  # the most memory: what a guessing machine has least of (RFC 9106 §4)
            self.stdout.write("\nProposal, the most memory within the time:")
        self.stdout.write(f"IRONAUTH_ARGON2_TIME_COST={best.time_cost}")
        self.stdout.write(f"IRONAUTH_ARGON2_MEMORY_KIB={best.memory_kib}")
        self._print("IRONAUTH_ARGON2_PARALLELISM=1")

    def _candidate(self, memory_kib: int, target_ms: float, threads: int) -> Candidate:
        """Measure the highest time cost that fits, at least the floor's, and print it."""
        least = min(floor_t for floor_t, floor_kib in ARGON2_FLOORS if memory_kib >= floor_kib)
        most = int(LIMITS["IRONAUTH_ARGON2_TIME_COST"].most)
        pass_ms = self._measure(memory_kib, least, threads) / least
        time_cost = min(max(least, int(target_ms * TOLERANCE / pass_ms)), most)
        took_ms = self._measure(memory_kib, time_cost, threads)
        rate = 1000 * threads / took_ms
        mark = "" if took_ms <= target_ms * TOLERANCE else "  longer than wanted"
        self._print(
            f"{memory_kib // 1024:>4} MiB {time_cost:>3} {took_ms:>6.0f} ms {rate:>9.1f}/s "
            f"{threads * memory_kib // 1024:>10} MiB{mark}"
        )
        return Candidate(memory_kib, time_cost, took_ms)

    def _print(self, line: str) -> None:
        """Write a line for a reader who waits, be it a terminal or a pipe; raises ``BrokenPipeError`` without one."""
        self.stdout.write(line)
        self.stdout.flush()

    @staticmethod
    def _measure(memory_kib: int, time_cost: int, threads: int) -> float:
        return argon2_build.measure_ms(
            threads=threads, rounds=ROUNDS, time_cost=time_cost, memory_kib=memory_kib, parallelism=1
        )


def _number(options: dict[str, Any], name: str, least: float, most: float, *, whole: bool = False) -> float:
    """Return an option's number; raises ``CommandError`` with what it may be for anything else."""
    text = str(options[name])
    if NUMBER.fullmatch(text) and least <= float(text) <= most and not (whole and "." in text):
        return float(text)
    option, kind = name.replace("_", "-"), "a whole number" if whole else "a number"
    raise CommandError(f"--{option} must be {kind} from {least:.0f} to {most:.0f}: leave it out for {DEFAULTS[name]}")
