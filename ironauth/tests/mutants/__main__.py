"""Try whether the tests notice: apply each mutant to a copy of the tree, and run the tests that have to fail.

The copy has what git knows and what is new, also what is not committed. First the tests run without any change: a test
that fails by itself proves nothing.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Final, NamedTuple

from ironauth.tests.mutants.table import ROOT, Mutant, mutants

#: Seconds that the tests of one mutant may take; a change that makes them wait has not been noticed by a test.
LIMIT_S: Final = 600
#: What pytest ends with where tests have failed; any other number is no verdict.
SOME_FAILED: Final = 1
DIES, LIVES, BREAKS = "dies", "LIVES", "BREAKS"
_FAILED: Final = re.compile(r"^FAILED (\S+)", re.MULTILINE)


class Verdict(NamedTuple):
    """What became of a mutant, and the test that noticed or what pytest said last."""

    mutant: Mutant
    what: str
    why: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants; return 1 where one lives or could not be judged, 2 where tests fail without a change.

    Args:
        arguments: Of the command line.
    """
    options = _options(arguments)
    chosen = [
        mutant for mutant in mutants() if all(word in f"{mutant.subject} {mutant.name}" for word in options.words)
    ]
    with tempfile.TemporaryDirectory(prefix="ironauth-mutants-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        first = _copy(Path(folder) / "0")
        copies.put(first)
        for number in range(1, options.at_once):
            copies.put(Path(shutil.copytree(first, Path(folder) / str(number), symlinks=True)))
        if not options.trust and not _passes(first, chosen):
            return 2
        found = list(_tried(chosen, copies, options.at_once))
    counts = Counter(verdict.what for verdict in found)
    print(f"{len(found)} mutants: {counts[DIES]} die, {counts[LIVES]} live, {counts[BREAKS]} not judged")
    print(_report(found))
    return 0 if counts[DIES] == len(found) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ironauth.tests.mutants", description=__doc__)
    parser.add_argument("words", nargs="*", help="only mutants whose subject and name have these words")
    parser.add_argument("--at-once", type=int, default=2, help="how many are tried at once (default: %(default)s)")
    parser.add_argument("--trust", action="store_true", help="do not run the tests without a change first")
    return parser.parse_args(arguments)


def _copy(folder: Path) -> Path:
    """Copy the tree, with the bytecode of each file, which counts as long as the file is as it was."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    # By its hash: a change within the same second that leaves the length would not be seen by the time.
    compiling = ["-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "accounts", "ironauth", "tokens"]
    subprocess.run([sys.executable, *compiling], cwd=folder, check=True)
    return folder


def _pytest(tree: Path, tests: Iterable[str], storage: str, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "IRONAUTH_TEST_STORAGE": storage}
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "--no-header", "-p", "no:cacheprovider", *options, *tests]
    return subprocess.run(
        command, cwd=tree, env=environment, check=False, capture_output=True, text=True, timeout=LIMIT_S
    )


def _passes(tree: Path, chosen: Sequence[Mutant]) -> bool:
    """Tell whether all tests pass without a change; print what pytest says where one does not."""
    for storage in sorted({mutant.storage for mutant in chosen}):
        tests = sorted({test for mutant in chosen if mutant.storage == storage for test in mutant.tests})
        run = _pytest(tree, tests, storage)
        if run.returncode:
            print(run.stdout[-4_000:], run.stderr[-2_000:], "tests fail without any change: mend them first", sep="\n")
            return False
        print(f"without any change: {run.stdout.strip().splitlines()[-1]} ({storage})", flush=True)
    return True


def _tried(chosen: Sequence[Mutant], copies: "SimpleQueue[Path]", at_once: int) -> Iterable[Verdict]:
    """Return the verdict of each mutant, in their order; each is printed when it is there."""

    def tried(mutant: Mutant) -> Verdict:
        tree = copies.get()
        try:
            verdict = _verdict(tree, mutant)
        finally:
            copies.put(tree)
        print(f"{verdict.what:6} {mutant.subject}: {mutant.name} ({verdict.why})", flush=True)
        return verdict

    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(tried, chosen)


def _verdict(tree: Path, mutant: Mutant) -> Verdict:
    path = tree / mutant.file
    source = path.read_text()
    path.write_text(mutant.applied(source))
    try:
        run = _pytest(tree, mutant.tests, mutant.storage, "-x")
    except subprocess.TimeoutExpired:
        return Verdict(mutant, BREAKS, f"no end after {LIMIT_S} s")
    finally:
        path.write_text(source)
    failed = _FAILED.search(run.stdout)
    if run.returncode == SOME_FAILED and failed is not None:
        return Verdict(mutant, DIES, failed[1])
    last = (run.stdout.strip() or run.stderr.strip() or "pytest said nothing").splitlines()[-1]
    return Verdict(mutant, BREAKS if run.returncode else LIVES, last)


def _report(found: Sequence[Verdict]) -> str:
    """Return the table of a page: of each subject how many were tried, and how many have died."""
    tried, died = (
        Counter(one.mutant.subject for one in found),
        Counter(one.mutant.subject for one in found if one.what == DIES),
    )
    lines = [f"| {subject} | {tried[subject]} | {died[subject]} |" for subject in sorted(tried)]
    return "\n".join(["| subject | mutants | die |", "|---|---|---|", *lines])


if __name__ == "__main__":
    sys.exit(main())
