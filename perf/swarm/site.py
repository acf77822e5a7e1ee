"""The server a swarm goes to: one of our own with a database for this run, or one that runs already."""

import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from ironauth.config.checks import default_hash_threads
from perf.load.oauth_messages import Application, application_of, make_client
from perf.rig import seed
from perf.rig.processes import Meter, Server, StartError, free_port, read_meter
from perf.rig.site_setup import prepare, prepare_site, private_servers, serve, site_environment
from perf.swarm.accounts import close_all, sign_up
from perf.swarm.options import Options
from perf.swarm.people import Ledger, still_open
from perf.swarm.thresholds import Result, Verdict, none_left

COUNTED = (b'"path":"/api/v1/access/', b'"path":"/oauth/')
ERROR_LEVELS = (b'"level":"error"', b'"level":"critical"')


@dataclass
class OwnSite:
    """A server with a temporary database, which vanishes with everything in it."""

    server: Server
    environment: dict[str, str]
    about: str
    revocation: bool
    address: str = "person{serial}@bench.example"
    password: str = seed.PASSWORD
    prefix: str = field(default_factory=lambda: f"swarm-{secrets.token_hex(4)}")
    application: Application | None = None
    _meter: Meter | None = None

    @property
    def host(self) -> str:
        """The server's origin."""
        return f"http://{self.server.host}"

    def begin(self) -> None:
        """Look at the clock: the load begins."""
        self._meter = read_meter(self.server.pid)

    def inspect(self, result: Result | None) -> tuple[list[Verdict], list[str]]:
        """Return what log, CPU time and database say about the run; ``result`` is None without statistics."""
        notes = []
        if self._meter is not None and result is not None:
            now = read_meter(self.server.pid)
            elapsed = now.at - self._meter.at
            busy = (now.server - self._meter.server) / elapsed
            others = (now.machine - self._meter.machine) / elapsed - busy
            notes.append(f"cores busy, on average: server {busy:.2f}, load generator and everything else {others:.2f}")
        log = self.server.log.read_bytes().splitlines()
        answered = sum(b'"event":"request"' in line and any(path in line for path in COUNTED) for line in log)
        left = self._count_leftovers()
        verdicts = [
            none_left("errors in the server's log", sum(any(level in line for level in ERROR_LEVELS) for line in log)),
            none_left("accounts left behind", left["accounts"]),
            none_left("sessions left open", left["sessions"]),
        ]
        if result is not None:
            missing = max(0, answered - result.requests)
            verdicts.insert(1, none_left("answers in the server's log that the statistics lack", missing))
            notes.append(f"the server's access log has {answered:,} answers, the statistics {result.requests:,}")
        return verdicts, notes

    def _count_leftovers(self) -> dict[str, int]:
        counted: dict[str, int] = json.loads(prepare(["-m", "perf.swarm.accounts", self.prefix], self.environment))
        return counted


@dataclass
class GivenSite:
    """A server that runs already: people are signed up through its API, and closed again by ``clean``."""

    host: str
    ledger: Path
    address: str
    password: str
    prefix: str
    revocation: bool = False  # how many workers it has, and whether they tell each other at once, is not known
    about: str = "a server that was running already"
    application: Application | None = None  # making one takes an operator

    def begin(self) -> None:
        """Do nothing: there is no meter of a process that is not ours."""

    def inspect(self, result: Result | None) -> tuple[list[Verdict], list[str]]:
        """Close what is still open, and return what could not be."""
        made = len(still_open(self.ledger))
        left = self.clean()
        return [none_left("accounts left behind", len(left))], [f"{made - len(left):,} accounts closed after the run"]

    def clean(self) -> list[str]:
        """Close every account of the run that exists; return the addresses of those that could not be closed."""
        return close_all(self.host, self.ledger, self.password)


type Site = OwnSite | GivenSite


def open_site(options: Options, folder: Path, ledger: Path, stack: ExitStack, say: Callable[[str], None]) -> Site:
    """Prepare a site with people; leaving ``stack`` ends, or cleans, what was started.

    Raises:
        StartError: it cannot be prepared.
    """
    if options.host is None:
        return _own(options, folder, stack, say)
    _require_answer(options.host)
    prefix = f"swarm-{secrets.token_hex(4)}"
    password = f"{secrets.token_hex(6)} teapots orbit {secrets.token_hex(6)}"
    site = GivenSite(options.host, ledger, prefix + "-m{serial}@swarm.example", password, prefix)
    stack.callback(_clean_late, site, say)
    say(f"signing up {options.people} people at {options.host}")
    emails = [site.address.format(serial=serial) for serial in range(options.people)]
    sign_up(options.host, emails, password, Ledger(ledger, "people"))
    return site


def _own(options: Options, folder: Path, stack: ExitStack, say: Callable[[str], None]) -> OwnSite:
    say(f"preparing a database with {options.people} people and a server ({options.storage})")
    port = free_port()
    environment = site_environment(folder, port=port, hash_threads=default_hash_threads())
    if options.storage == "postgres":
        environment |= private_servers(folder, stack)
    environment |= options.settings
    prepare_site(environment, people=options.people)
    client = make_client(environment)
    server = serve(folder / "ironauth.log", port, environment, stack, workers=options.workers)
    workers = f"{options.workers} workers" if options.workers > 1 else "1 worker"
    storage = {"sqlite": "SQLite, no Redis", "postgres": "Postgres with fsync and Redis"}[options.storage]
    # A token is no condition of the run, and the reports are kept.
    extra = "".join(f", {name}={value}" for name, value in options.settings.items() if not name.endswith("_TOKEN"))
    return OwnSite(
        server,
        environment,
        f"own server, {workers}, {storage}{extra}",
        revocation=options.workers == 1,
        application=application_of(server.host, environment["IRONAUTH_ISSUER"], client),
    )


def _require_answer(host: str) -> None:
    try:
        with urllib.request.urlopen(f"{host}/ping", timeout=5) as answer:  # noqa: S310 - http on loopback, checked
            if answer.status == 200:
                return
            status = answer.status
    except urllib.error.HTTPError as error:
        status = error.code
    except (urllib.error.URLError, OSError) as error:
        raise StartError(f"Nothing answers at {host} ({error}): start IronAuth there, or leave --host out") from error
    raise StartError(f"{host}/ping is answered with {status}: is it an IronAuth, and known to it by that name?")


def _clean_late(site: GivenSite, say: Callable[[str], None]) -> None:
    """Close what an interrupted or failed run has left; nothing after a run that was inspected."""
    count = len(still_open(site.ledger))
    if not count:
        return
    say(f"closing {count} accounts")
    if left := site.clean():
        say(f"{len(left)} accounts could not be closed: addresses that begin with {site.prefix}-")
