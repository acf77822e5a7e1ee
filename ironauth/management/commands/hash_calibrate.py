"""``manage.py hash_calibrate``: which Argon2id cost this machine can afford for a sign-in of a given length."""

from argparse import ArgumentParser
from typing import Any, NamedTuple

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from ironauth import server
from ironauth.infrastructure import argon2_build
from ironauth.infrastructure.configuration import ARGON2_FLOORS
from ironauth.infrastructure.setting_limits import LIMITS

ROUNDS = 3  # hashes of each thread for one figure; the median counts
MAX_TARGET_MS = 5_000
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
        parser.add_argument("--target-ms", type=float, default=100.0, help="time of one hash (default: 100)")
        parser.add_argument("--memory-mib", type=int, default=64, help="most memory of one hash (default: 64)")
        parser.add_argument("--threads", type=int, default=settings.IRONAUTH_HASH_THREADS, help="hash threads")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Print every candidate and the proposal; raises ``CommandError`` for options out of range."""
        server.use_huge_pages()
        target_ms, memory_mib, threads = options["target_ms"], options["memory_mib"], options["threads"]
        limit = LIMITS["IRONAUTH_ARGON2_MEMORY_KIB"]
        if not 1 <= target_ms <= MAX_TARGET_MS:
            raise CommandError(f"--target-ms must be 1 to {MAX_TARGET_MS}")
        if not limit.least <= memory_mib * 1024 <= limit.most:
            raise CommandError(f"--memory-mib must be {limit.least / 1024:.0f} to {limit.most / 1024:.0f}")
        if not 1 <= threads <= LIMITS["IRONAUTH_HASH_THREADS"].most:
            raise CommandError(f"--threads must be 1 to {LIMITS['IRONAUTH_HASH_THREADS'].most:.0f}")
        build = "compiled for this CPU" if argon2_build.is_native() else f"the portable wheel; {argon2_build.REMEDY}"
        self.stdout.write(f"Argon2: {build}. {threads} threads hash at once, p=1, wanted: {target_ms:.0f} ms.\n\n")
        self.stdout.write("memory   t   a hash    all threads   memory in all")
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
        self.stdout.write("IRONAUTH_ARGON2_PARALLELISM=1")

    def _candidate(self, memory_kib: int, target_ms: float, threads: int) -> Candidate:
        """Measure the highest time cost that fits, at least the floor's, and print it."""
        least = min(floor_t for floor_t, floor_kib in ARGON2_FLOORS if memory_kib >= floor_kib)
        most = int(LIMITS["IRONAUTH_ARGON2_TIME_COST"].most)
        pass_ms = self._measure(memory_kib, least, threads) / least
        time_cost = min(max(least, int(target_ms * TOLERANCE / pass_ms)), most)
        took_ms = self._measure(memory_kib, time_cost, threads)
        rate = 1000 * threads / took_ms
        mark = "" if took_ms <= target_ms * TOLERANCE else "  longer than wanted"
        self.stdout.write(
            f"{memory_kib // 1024:>4} MiB {time_cost:>3} {took_ms:>6.0f} ms {rate:>9.1f}/s "
            f"{threads * memory_kib // 1024:>10} MiB{mark}"
        )
        return Candidate(memory_kib, time_cost, took_ms)

    @staticmethod
    def _measure(memory_kib: int, time_cost: int, threads: int) -> float:
        return argon2_build.measure_ms(
            threads=threads, rounds=ROUNDS, time_cost=time_cost, memory_kib=memory_kib, parallelism=1
        )
