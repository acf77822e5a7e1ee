"""Serve the previous release, migrate its database to this one meanwhile, then serve both: ``python -m perf.previous``.

The previous release is the commit before this one, and the newest whose migrations are fewer; on SQLite and on
Postgres. ``--stopped`` with older commits: nothing is served while their database is migrated, then this release alone,
for what they began has to go on. Exit status: 0 no request failed; 1 one did, with the migration during which it did;
2 something did not start; 130 interrupted.
"""

import asyncio
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from perf.nodes.site import CHEAP_HASH
from perf.nodes.watch import Answers
from perf.previous import beside, further, history
from perf.previous.history import Code, python_for
from perf.previous.traffic import Traffic
from perf.rig.arguments import Parser
from perf.rig.console import leave_by_interrupt, say, status_of
from perf.rig.processes import free_port
from perf.rig.site_setup import ROOT, private_servers, site_environment

STORAGES = ("sqlite", "postgres")
_CALM_S = 1.0  # of traffic before and after the migrations


def main() -> int:
    """Check every previous release on every storage asked for."""
    leave_by_interrupt()
    parser = Parser(prog="python -m perf.previous", description=__doc__.split("\n", 1)[0])
    parser.add_argument("commits", nargs="*", metavar="commit", help="other commits than these")
    parser.add_argument("--storage", choices=STORAGES, help="one of them only")
    parser.add_argument(
        "--stopped", action="store_true", help="serve nothing meanwhile: for releases before the previous"
    )
    parser.add_argument("--list", action="store_true", help="say which commits these are")
    given = parser.parse_args()
    return status_of(lambda: _run(given), lost="")


def _run(given: Any) -> int:
    releases = [history.release(name) for name in given.commits] or history.previous()
    if given.list:
        for release in releases:
            say(f"{release}: without {', '.join(release.missing) or 'nothing of this one'}")
        return 0
    check = _check_stopped if given.stopped else _check
    wrong = [
        f"{release}, {storage}: {text}"
        for release in releases
        for storage in ([given.storage] if given.storage else STORAGES)
        for text in check(release, storage)
    ]
    sys.stdout.writelines(f"FAILED {text}\n" for text in wrong)
    return 1 if wrong else 0


def _check(release: history.Release, storage: str) -> list[str]:
    """Serve a previous release and migrate meanwhile; return what went wrong."""
    with ExitStack() as stack:
        folder, old, new = _site(release, storage, stack)
        was = old.serve(folder / "old.log", stack)
        traffic = Traffic(was)
        asyncio.run(_migrate_under(traffic, new))
        say(f"migrated: {len(traffic.answers.wrong)} of {traffic.answers.total} requests failed")
        if traffic.answers.wrong:
            return traffic.answers.wrong
        answers = Answers()
        isnow = new.serve(folder / "new.log", stack)
        both = asyncio.run(beside.serve_both(answers, was, isnow, beside.make_clients(old, new)))
        say(f"both served: {len(both)} of {answers.total} requests failed")
        return both


def _check_stopped(release: history.Release, storage: str) -> list[str]:
    """Have people and a client begin at an older release and go on at this one; return what failed."""
    with ExitStack() as stack:
        folder, old, new = _site(release, storage, stack)
        answers = Answers()
        with ExitStack() as while_old:
            begun = asyncio.run(further.begin(answers, old.serve(folder / "old.log", while_old)))
            made = beside.make_clients(old, old)
        new.manage("migrate", "--verbosity", "0")
        new.manage("create_signing_key")  # as the changelog asks for, and harmless where there are keys
        failed = asyncio.run(further.go_on(answers, new.serve(folder / "new.log", stack), begun, made))
        say(f"gone on with: {len(failed)} of {answers.total} requests failed")
        return failed


def _site(release: history.Release, storage: str, stack: ExitStack) -> tuple[Path, Code, Code]:
    """Return a folder, and both releases on a database that the older one has made."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ironauth-previous-")))
    folder.chmod(0o711)  # Postgres' own user passes through
    environment = site_environment(folder, port=free_port(), hash_threads=1) | CHEAP_HASH
    if storage == "postgres":
        environment |= private_servers(folder, stack)
    code = folder / "code"
    history.unpack(release, code)
    old, new = Code(code, python_for(code), environment), Code(ROOT, sys.executable, environment)
    say(f"{release}, {storage}: {len(release.missing)} migrations behind")
    old.manage("migrate", "--verbosity", "0")
    old.manage("create_signing_key")
    return folder, old, new


async def _migrate_under(traffic: Traffic, new: Code) -> None:
    """Apply what is missing one by one, so that a failed request names the migration; then do all of ``migrate``."""
    answers = traffic.answers
    async with traffic.around():
        answers.during = "before the migrations"
        await asyncio.sleep(_CALM_S)
        plan = await asyncio.to_thread(new.manage, "showmigrations", "--plan")
        for line in plan.splitlines():
            if line.startswith("[ ]"):
                answers.during = name = line.split()[2]
                await asyncio.to_thread(new.manage, "migrate", "--verbosity", "0", *name.split("."))
                answers.during = f"after {name}"
                await asyncio.sleep(_CALM_S)
        answers.during = "migrate, all applied"
        await asyncio.to_thread(new.manage, "migrate", "--verbosity", "0")
        await asyncio.sleep(_CALM_S)


if __name__ == "__main__":
    sys.exit(main())
