"""People of another system moved in by ``manage.py import_users``, again, and taken back, on SQLite."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from perf.findings import Finding, Table, at_most
from perf.lab import Lab
from perf.rig.processes import StartError, free_port
from perf.rig.site_setup import ROOT, prepare_site, site_environment

HYPOTHESIS = (
    "100,000 people with password hashes, one in ten with an authenticator app and recovery codes, are moved in within "
    "five minutes of CPU time. Memory hardly grows with their number: a batch of 500 is held at once, and a digest of "
    "each id and address."
)
LARGE, QUICK = 100_000, 2_000
#: The smaller of the two imports has this part of the people: what memory grows by is told by the two.
PART: Final = 10
WANTED_S: Final = 300.0
#: Two digests of 12 bytes for each of the people between the two imports, as Python keeps them in a set.
WANTED_GROWTH_BYTES: Final = 400.0
_CODES: Final = 10
_APP_OF: Final = 10  # one in so many has an app
_MIB: Final = 2**20


class Cost(NamedTuple):
    """What one command took.

    Attributes:
        seconds: By the clock.
        cpu_s: Of CPU time, user's and system's.
        peak_bytes: The most memory that it had at once.
    """

    seconds: float
    cpu_s: float
    peak_bytes: int


def measure(lab: Lab) -> Finding:
    """Move a tenth of the people in, then all of them into another database; again, and back."""
    count = lab.size or (QUICK if lab.quick else LARGE)
    costs: dict[str, Cost] = {}
    for size in (max(1, count // PART), count):
        folder = lab.folder / str(size)
        folder.mkdir(exist_ok=True)
        environment = site_environment(folder, port=free_port(), hash_threads=1)
        prepare_site(environment, people=0)
        export = folder / "people.jsonl"
        with export.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in people(size))
        command = ["import_users", str(export), "--from", "jsonl"]
        costs[f"import {size:,}"], said = _run(command, environment)
        if f"{size:,}  created" not in said:
            raise StartError(f"not everybody was created:\n{said}")
        lab.say(f"{size:,} people: {costs[f'import {size:,}'].seconds:.1f} s")
    run_id = said.strip().rsplit(" ", 1)[-1]
    costs["again"], _ = _run(command, environment)
    costs["undo"], said = _run(["import_users", "--undo", run_id], environment)
    if not said.startswith(f"{count:,} accounts deleted"):
        raise StartError(f"not everybody was taken back:\n{said}")
    return finding(count, costs)


def people(count: int) -> Iterator[str]:
    """Return the lines of an export, as ``import_users --from jsonl`` reads them."""
    digest = base64.b64encode(hashlib.pbkdf2_hmac("sha256", b"x", b"salt" * 4, 1)).decode()
    for number in range(count):
        line: dict[str, object] = {
            "external_id": f"there-{number}",
            "email": f"person{number}@example.com",
            "email_verified": True,
            "name": f"Person {number}",
            "created_at": "2020-01-02T03:04:05Z",
            "password_hash": f"pbkdf2_sha256$260000$salt{number:012}${digest}",
        }
        if number % _APP_OF == 0:
            line["totp_secret"] = base64.b32encode(f"{number:020}".encode()).decode()
            codes = (f"CODE{number:08}{code:04}".encode() for code in range(_CODES))
            line["recovery_codes"] = [
                {"sha512": base64.b64encode(hashlib.sha512(code).digest()).decode()} for code in codes
            ]
        yield json.dumps(line)


def _run(command: Sequence[str], environment: Mapping[str, str]) -> tuple[Cost, str]:
    """Run a command of ``manage.py``; return what it took, and what it printed.

    Raises:
        StartError: It failed.
    """
    printed = Path(environment["IRONAUTH_ENV_FILE"]).with_name("printed.txt")
    began = time.perf_counter()
    with printed.open("wb") as out:
        process = subprocess.Popen([sys.executable, "manage.py", *command], cwd=ROOT, env=environment, stdout=out)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    said = printed.read_text(encoding="utf-8")
    if process.returncode:
        raise StartError(f"manage.py {command[0]} failed:\n{said}")
    cost = Cost(time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss * 1_024)
    return cost, said


def finding(count: int, costs: Mapping[str, Cost]) -> Finding:
    """Return the table and what was promised.

    Args:
        count: How many people the larger import has.
        costs: What each command took, the smaller import first.
    """
    small, large = (costs[f"import {size:,}"] for size in (max(1, count // PART), count))
    growth = (large.peak_bytes - small.peak_bytes) / max(1, count - count // PART)
    rows = [
        [name, f"{cost.seconds:.1f}", f"{cost.cpu_s:.1f}", f"{cost.peak_bytes / _MIB:.0f}"]
        for name, cost in costs.items()
    ]
    return Finding(
        [Table("Moving in", ["command", "s", "CPU s", "most memory, MiB"], rows)],
        [
            at_most(f"{count:,} people moved in: CPU time", WANTED_S, large.cpu_s, " s"),
            at_most("memory for each further person", WANTED_GROWTH_BYTES, growth, " bytes"),
        ],
        notes=[
            "Each command begins with the start of Python and the product: two to three seconds of CPU time.",
            "*Again* finds everybody by `external_id`. *Undo* asks of each whether they have done anything here.",
        ],
        data={name: cost._asdict() for name, cost in costs.items()},
    )
