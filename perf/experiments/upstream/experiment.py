"""One sign-in with another provider, three requests: the server's CPU time, without and with the RS256 check."""

import base64
import http.client
import itertools
import re
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding

from perf.experiments.upstream.provider import CERTIFICATE, CLIENT_ID, KEY, WORD, code_of, id_token
from perf.findings import Finding, Table, at_most
from perf.lab import Lab
from perf.load.oauth_messages import REDIRECT_URI, Application, Asking, application_of, make_client
from perf.rig.processes import Server, StartError, free_port, thread_times
from perf.rig.site_setup import ROOT, prepare_site, serve, site_environment

HYPOTHESIS = (
    "The three requests of a sign-in with another provider, from a client's link to the code it gets, take at most "
    "3 ms of the server's CPU time for somebody who has an account, without the check of the RS256 signature."
)
WANTED_MS: Final = 3.0
PEOPLE: Final = 40  # who take turns, so that nobody has more sessions than they may
SIGN_INS, QUICK_SIGN_INS = 400, 80
AT_ONCE: Final = 8  # clients, each with people of its own
CHECKS: Final = 500
STEPS: Final = ("authorize", "to the provider", "back")
FORM: Final = re.compile(rb'name="request" value="([^"]+)"')
LINK: Final = re.compile(rb'<a href="([^"]+)">Continue')
INCLUDED: Final = (
    "DEBUG off, SQLite, one worker. The connection to the provider with TLS is used again by the next sign-in, as long "
    "as the provider lets it stay; the provider runs in another process. Keys and discovery document are known. The "
    "CPU time is that of all threads (schedstat); what the idle server takes meanwhile is in it too."
)


class Browser:
    """One connection that keeps cookies, of somebody who comes from the client and goes to the provider and back."""

    def __init__(self, server: Server, application: Application) -> None:
        self._server = server
        self._application = application
        self._line = http.client.HTTPConnection(*server.address)
        self._cookies: dict[str, str] = {}

    def sign_in(self, subject: str) -> list[float]:
        """Sign somebody in without cookies; return the server's CPU seconds of each step.

        Raises:
            StartError: An answer was wrong.
        """
        self._cookies = {}
        asking, marks = Asking.anew(), [self._cpu_s()]
        page = self._ask("GET", asking.target(self._application))
        marks.append(self._cpu_s())
        form = {"request": unescape(found(FORM, page)), "provider": "acme"}
        asked = parse_qs(urlsplit(unescape(found(LINK, self._ask("POST", "/oauth/upstream", form)))).query)
        marks.append(self._cpu_s())
        brought = {"state": asked["state"][0], "code": code_of(asked["nonce"][0], subject)}
        answer = self._ask("GET", f"/oauth/upstream/acme?{urlencode(brought)}", wanted=303)
        marks.append(self._cpu_s())
        if not answer.startswith(REDIRECT_URI.encode()) or b"code=" not in answer:
            raise StartError(f"no code for the client: {answer[:200]!r}")
        return [after - before for before, after in itertools.pairwise(marks)]

    def _ask(self, method: str, path: str, form: Mapping[str, str] | None = None, wanted: int = 200) -> bytes:
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items())}
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        self._line.request(method, path, urlencode(form) if form is not None else None, headers)
        answer = self._line.getresponse()
        body = answer.read()
        for cookie in answer.headers.get_all("Set-Cookie") or ():
            name, _, value = cookie.partition(";")[0].partition("=")
            self._cookies[name] = value
        if answer.status != wanted:
            raise StartError(f"{method} {path.partition('?')[0]}: {answer.status} {body[:300]!r}")
        return (answer.headers.get("Location") or "").encode() if wanted == 303 else body

    def _cpu_s(self) -> float:
        return cpu_s(self._server)


def measure(lab: Lab) -> Finding:
    """Sign people in one after the other, and read the server's clock."""
    issuer = start_provider(lab)
    environment = site_environment(lab.folder, port=free_port(), hash_threads=1)
    environment |= {"IRONAUTH_UPSTREAM_NETWORKS": "127.0.0.0/8", "SSL_CERT_FILE": str(lab.folder / CERTIFICATE)}
    prepare_site(environment, people=1)
    add_provider(environment, issuer)
    client = make_client(environment)
    server = serve(lab.folder / "serve.log", free_port(), environment, lab.stack)
    application = application_of(server.host, environment["IRONAUTH_ISSUER"], client)
    browser = Browser(server, application)
    for number in range(PEOPLE):
        browser.sign_in(f"person{number}")  # the first time: an account is made
    apart = {
        "of which the RS256 check (measured apart)": rs256_check_ms(issuer),
        "a request to the provider over a new connection with TLS (measured apart)": request_ms(
            issuer, lab.folder / CERTIFICATE
        ),
    }
    rounds: list[list[float]] = []
    together: list[float] = []
    for number in range(1, lab.rounds + 1):
        count = QUICK_SIGN_INS if lab.quick else SIGN_INS
        browser = Browser(server, application)  # the server has closed the last one's connection meanwhile
        seen = [browser.sign_in(f"person{one % PEOPLE}") for one in range(count)]
        rounds.append([1_000 * statistics.fmean(step) for step in zip(*seen, strict=True)])
        together.append(at_once_ms(server, application, count))
        lab.say(f"round {number}  {sum(rounds[-1]):.2f} ms of CPU time a sign-in, at once {together[-1]:.2f}")
    return finding(rounds, apart, together)


def at_once_ms(server: Server, application: Application, count: int) -> float:
    """Return the server's CPU milliseconds of a sign-in while several clients sign people in at the same time.

    Args:
        server: The server.
        application: The client that people come from.
        count: How many sign-ins, of all clients together.
    """
    share = PEOPLE // AT_ONCE

    def sign_ins(number: int) -> None:
        browser = Browser(server, application)
        for one in range(count // AT_ONCE):
            browser.sign_in(f"person{number * share + one % share}")

    began = cpu_s(server)
    with ThreadPoolExecutor(AT_ONCE) as clients:
        list(clients.map(sign_ins, range(AT_ONCE)))
    return 1_000 * (cpu_s(server) - began) / (count // AT_ONCE * AT_ONCE)


def cpu_s(server: Server) -> float:
    """Return the CPU seconds that a server's threads have taken."""
    spent = thread_times(server.pid)
    return spent.hashing + spent.rest


def finding(rounds: list[list[float]], apart: Mapping[str, float], together: list[float]) -> Finding:
    """Say what was found.

    Args:
        rounds: CPU milliseconds of each step, for each round.
        apart: What parts of a sign-in take by themselves, the RS256 check first.
        together: CPU milliseconds of a sign-in among several at once, for each round.
    """
    steps = [statistics.median(step) for step in zip(*rounds, strict=True)]
    whole = [sum(each) for each in rounds]
    rows = [(name, f"{ms:.2f}") for name, ms in zip(STEPS, steps, strict=True)]
    rows.append(("all three: median (low-high)", f"{statistics.median(whole):.2f} ({min(whole):.2f}-{max(whole):.2f})"))
    rows.append((f"all three, {AT_ONCE} clients at once: median", f"{statistics.median(together):.2f}"))
    rows += [(name, f"{ms:.3f}") for name, ms in apart.items()]
    left = statistics.median(whole) - next(iter(apart.values()))
    return Finding(
        [Table("A sign-in of somebody who has an account", ("step", "server CPU ms"), rows)],
        [at_most("CPU time of a sign-in with a provider, without its RS256 check", WANTED_MS, left, " ms")],
        notes=[INCLUDED],
        data={"rounds": rounds, "apart": dict(apart), "together": together},
    )


def start_provider(lab: Lab) -> str:
    """Start the provider, which ends with the experiment; return its issuer."""
    command = [sys.executable, "-m", "perf.experiments.upstream.provider", str(lab.folder)]
    process = lab.stack.enter_context(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
    lab.stack.callback(process.terminate)
    assert process.stdout is not None
    return process.stdout.readline().strip()


def add_provider(environment: Mapping[str, str], issuer: str) -> None:
    """Add the provider as an operator does.

    Args:
        environment: Of the site.
        issuer: The provider's.
    """
    command = [sys.executable, "manage.py", "upstream_provider", "add", "acme", "--issuer", issuer]
    command += ["--client-id", CLIENT_ID, "--trusts-email"]
    subprocess.run(command, cwd=ROOT, env=dict(environment), input=WORD, text=True, capture_output=True, check=True)


def found(pattern: re.Pattern[bytes], page: bytes) -> str:
    """Return what a page has in this place.

    Args:
        pattern: The place.
        page: The page.

    Raises:
        StartError: It is another page.
    """
    match = pattern.search(page)
    if match is None:
        raise StartError(f"another page: {page[:300]!r}")
    return match[1].decode()


def rs256_check_ms(issuer: str) -> float:
    """Return the CPU milliseconds that this thread takes to check one RS256 signature."""
    signed, _, signature = id_token(issuer, "n" * 43, "ann").rpartition(".")
    raw, key = base64.urlsafe_b64decode(signature + "=="), KEY.public_key()
    began = time.thread_time()
    for _ in range(CHECKS):
        key.verify(raw, signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    return 1_000 * (time.thread_time() - began) / CHECKS


def request_ms(issuer: str, certificate: Path) -> float:
    """Return the CPU milliseconds that this thread takes to ask the provider over a new connection with TLS.

    Args:
        issuer: The provider's.
        certificate: What it is believed with.
    """
    tls = ssl.create_default_context(cafile=str(certificate))
    began = time.thread_time()
    for _ in range(CHECKS):
        line = http.client.HTTPSConnection(urlsplit(issuer).netloc, context=tls)
        line.request("GET", "/jwks")
        line.getresponse().read()
        line.close()
    return 1_000 * (time.thread_time() - began) / CHECKS
