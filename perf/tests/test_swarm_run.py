"""Whole runs of the swarm, as an operator starts them; Locust lives in their processes only."""

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: No limit on times: this machine may be busy with other tests.
PATIENT = [
    "--max-me-p95-ms", "60000", "--max-signin-p95-ms", "60000", "--max-late-percent", "100", "--min-requests", "1",
]  # fmt: skip
PAIR = {
    "access_token": "a", "token_type": "Bearer", "expires_in": 600, "refresh_token": "r", "refresh_expires_in": 600,
    "session_id": "0192f000-0000-7000-8000-000000000000",
}  # fmt: skip


class Stub(BaseHTTPRequestHandler):
    """Signs up and in, closes accounts, sheds sign-ins by cookie, and fails at everything else."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[Counter[str]] = Counter()

    def do_GET(self) -> None:
        self.answer(200 if self.path == "/ping" else 500)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if self.path.endswith("/signup"):
            self.answer(201)
        elif self.path.endswith("/signin") and "transport" in body:
            self.answer(503, Retry_After="0")
        elif self.path.endswith("/signin"):
            self.answer(200, PAIR)
        else:
            self.answer(500)

    def do_DELETE(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(204)

    def answer(self, status: int, content: object = None, **headers: str) -> None:
        self.seen[f"{self.command} {self.path.rpartition('/')[2]} {status}"] += 1
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        for name, value in ({"X-Request-ID": "r", "Cache-Control": "no-store"} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the standard library's name
        """Stay silent."""


@pytest.fixture
def stub() -> Iterator[str]:
    """A server that is no IronAuth; yields its origin."""
    Stub.seen.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Stub) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def swarm(folder: Path, *arguments: str) -> list[str]:
    """Return the command of a short run that writes to ``folder`` only."""
    return [sys.executable, "-m", "perf.swarm", "--quick", "--results", str(folder), "--users", "10", *arguments]


def measured(folder: Path) -> dict[str, Any]:
    """Return the JSON a run has left."""
    (path,) = (path for path in (folder / "raw" / "swarm").glob("*.json") if "_locust" not in path.name)
    content: dict[str, Any] = json.loads(path.read_text())
    return content


@pytest.mark.live
def test_a_swarm_of_two_processes_finds_no_fault_and_leaves_nothing(tmp_path: Path) -> None:
    """Every journey is completed at a real server, the processes' counts add up to the total, the status is 0."""
    # Beside the other parts of the suite, threads that give way would hash nothing.
    cheap = [f"--set=IRONAUTH_{it}" for it in ("ARGON2_MEMORY_KIB=19456", "ARGON2_TIME_COST=2", "HASH_NICE=0")]
    hurried = ["--seconds", "4", "--think", "0.02", "--spawn-rate", "20", "--processes", "2", "--allow-shed"]
    done = subprocess.run(
        swarm(tmp_path, *cheap, *hurried, *PATIENT), cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    run = measured(tmp_path)
    shares = run["result"]["tally"]["answers"]
    assert set(shares) == {"0", "1"}
    assert sum(shares.values()) == sum(entry["requests"] for entry in run["result"]["entries"])
    kept = {verdict["what"]: verdict["kept"] for verdict in run["verdicts"]}
    assert kept["accounts left behind"]
    assert kept["answers in the server's log that the statistics lack"]
    (report,) = (tmp_path / "raw" / "swarm").glob("*.html")
    assert "Locust" in report.read_text()


@pytest.mark.live
def test_failures_and_shed_load_make_the_status_1(stub: str, tmp_path: Path) -> None:
    """Each wrong answer is counted under its reason, 503 with Retry-After apart; accounts are closed all the same."""
    arguments = swarm(tmp_path, "--host", stub, "--seconds", "2", "--think", "0.1", "--spawn-rate", "20", *PATIENT)
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    run = measured(tmp_path)
    missed = {verdict["what"] for verdict in run["verdicts"] if not verdict["kept"]}
    assert {"failed requests", "requests shed (503 with Retry-After)", "journeys completed"} <= missed
    reasons = {(trouble["where"], trouble["reason"]) for trouble in run["result"]["failures"]}
    assert ("GET /me", "500 without a problem document instead of 200") in reasons
    shed = run["result"]["tally"]["shed"]
    assert shed == {"POST /signin (cookie)": Stub.seen["POST signin 503"]}
    assert Stub.seen["DELETE me 204"] >= Stub.seen["POST signup 201"] > 0
    assert "MISSED: failed requests" in done.stdout


def test_a_server_that_is_not_there_makes_the_status_2(tmp_path: Path) -> None:
    """Without a server nothing is sent, and the message names the remedy."""
    arguments = swarm(tmp_path, "--host", "http://127.0.0.1:9")
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "start IronAuth there" in done.stderr


@pytest.mark.live
def test_an_interrupted_swarm_ends_locust_and_closes_its_accounts(stub: str, tmp_path: Path) -> None:
    """SIGTERM, as Ctrl-C: status 130, every account that was made is closed."""
    arguments = swarm(tmp_path, "--host", stub, "--seconds", "60", "--think", "0.1", *PATIENT)
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if " in all, " in line:  # the first progress line: users are at work
                break
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=40)
    assert process.returncode == 130, output
    assert Stub.seen["DELETE me 204"] >= Stub.seen["POST signup 201"] > 0
    assert "closing" in output


def test_locust_is_not_started_without_preparation() -> None:
    """Anybody who gives the locustfile to Locust by hand is told what to run instead."""
    program = "import os; os.environ.pop('IRONAUTH_SWARM', None); import perf.swarm.visitor"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "python -m perf.swarm" in done.stderr
