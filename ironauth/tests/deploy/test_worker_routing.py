"""nginx and HAProxy before workers with a socket each: a token keeps its worker, and one that goes loses nothing."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from django.conf import settings

from ironauth import settings_test
from ironauth.tests.deploy.chain import program
from ironauth.tests.deploy.files import DEPLOY, with_changes
from ironauth.tests.deploy.test_several_nodes import CONF, _listens
from ironauth.tests.services import BinaryMissing

pytestmark = pytest.mark.live
WORKERS = 4
#: Answers with the number of the process that did.
APPLICATION = """
import os
async def application(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    said = [(b"content-length", b"2"), (b"x-worker", b"%d" % os.getpid())]
    await send({"type": "http.response.start", "status": 200, "headers": said})
    await send({"type": "http.response.body", "body": b"OK"})
"""
SERVER = """
import pathlib, sys
import uvicorn
from ironauth.server import server, supervisor
if __name__ == "__main__":
    bound = server.bind_tcp("127.0.0.1", 0)
    server.listen(bound)
    config = uvicorn.Config("routed:application", workers=int(sys.argv[1]), lifespan="off", log_config=None,
                            loop="uvloop", http="ironauth.server.connection:BoundedHttpProtocol",
                            timeout_worker_healthcheck=30)
    config.worker_sockets = pathlib.Path(sys.argv[2])
    supervisor.Supervisor(config, [bound], pathlib.Path("ready").touch).run()
"""
type Proxy = Callable[[], str]


class Site:
    """The workers of one server, and the proxy before them."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes], base: str) -> None:
        self.folder = folder
        self.process = process
        self.base = base
        self.client = httpx.Client(timeout=60)

    def worker_of(self, token: str, method: str = "GET", *, cookie: bool = False) -> int:
        """Return the process that answers a request with this token."""
        headers = {"Cookie": f"a=b; __Host-access_token={token}"} if cookie else {"Authorization": f"Bearer {token}"}
        answer = self.client.request(method, self.base, headers=headers)
        assert answer.status_code == 200, answer.text
        return int(answer.headers["x-worker"])

    def workers_of(self, tokens: list[str]) -> list[int]:
        """Return which worker answers each."""
        return [self.worker_of(token) for token in tokens]


@contextmanager
def _workers(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    (folder / "routed.py").write_text(APPLICATION)
    (folder / "server.py").write_text(SERVER)
    environment = {**os.environ, "PYTHONPATH": f"{settings.BASE_DIR}:{folder}"}
    command = [sys.executable, "server.py", str(WORKERS), str(folder)]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        _wait(lambda: (folder / "ready").exists() or process.poll() is not None)
        assert process.poll() is None, (folder / "server.log").read_text()
        yield process
    finally:
        process.terminate()
        process.wait()


def _wait(condition: Callable[[], bool], limit_s: float = 180) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _nginx(folder: Path, port: int) -> list[str]:
    """Return how nginx is started with the files of deploy/ on these workers."""
    workers = (DEPLOY / "nginx" / "upstream-workers.conf").read_text()
    (folder / "upstream-nodes.conf").write_text(with_changes(workers, ("/run/ironauth/", f"{folder}/")))
    (folder / "proxy.conf").write_text((DEPLOY / "nginx" / "proxy.conf").read_text())
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(CONF.format(folder=folder, port=port, user=user))
    return [program("nginx", "nginx-light"), "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]


def _haproxy(folder: Path, port: int) -> list[str]:
    """Return how HAProxy is started with the file of deploy/ on these workers, without TLS."""
    text = with_changes((DEPLOY / "haproxy" / "workers.cfg").read_text(), ("unix@/run/ironauth/", f"unix@{folder}/"))
    text, replaced = re.subn(r"bind :443 .*", f"bind 127.0.0.1:{port}", text)
    assert replaced == 1
    (folder / "haproxy.cfg").write_text(text)
    return [program("haproxy", "haproxy"), "-db", "-f", str(folder / "haproxy.cfg")]


@pytest.fixture(params=[_nginx, _haproxy], ids=["nginx", "haproxy"])
def site(request: pytest.FixtureRequest, socket_folder: Path) -> Iterator[Site]:
    """Four workers behind a proxy."""
    port = settings_test._free_port()
    try:
        command = request.param(socket_folder, port)
    except BinaryMissing as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))
    with ExitStack() as stack:
        process = stack.enter_context(_workers(socket_folder))
        with (socket_folder / "proxy.log").open("wb") as log:
            proxy = subprocess.Popen(command, stdout=log, stderr=log)
        stack.callback(proxy.wait)
        stack.callback(proxy.terminate)
        _wait(lambda: _listens(port) or proxy.poll() is not None)
        assert proxy.poll() is None, (socket_folder / "proxy.log").read_text()
        site = Site(socket_folder, process, f"http://127.0.0.1:{port}/")
        stack.callback(site.client.close)
        yield site


def test_a_token_keeps_its_worker(site: Site) -> None:
    """In the field and in the cookie alike; all workers have some; and who has no token goes anywhere."""
    tokens = [f"{number:04}.ab-_" for number in range(60)]
    homes = site.workers_of(tokens)
    assert len(set(homes)) == WORKERS
    assert site.workers_of(tokens) == homes
    assert [site.worker_of(token, cookie=True) for token in tokens[:20]] == homes[:20]
    strangers = {int(site.client.get(site.base).headers["x-worker"]) for _ in range(40)}
    assert len(strangers) == WORKERS


def test_a_worker_that_is_killed_loses_no_request(site: Site) -> None:
    """Its tokens are answered by others, POST too; the others' stay where they are."""
    tokens = [f"{number:04}.token" for number in range(24)]
    homes = dict(zip(tokens, site.workers_of(tokens), strict=True))
    victim = homes[tokens[0]]
    os.kill(victim, signal.SIGKILL)
    time.sleep(0.5)  # a POST on a connection whose end the proxy has not seen yet might have arrived: nobody repeats it
    for token, home in homes.items():
        for method in ("POST", "GET"):
            answered = site.worker_of(token, method)
            assert answered != victim
            assert home in (victim, answered)


def test_workers_that_are_renewed_under_load_lose_no_request(site: Site) -> None:
    """SIGHUP replaces each while requests come, POST too: all are answered, and tokens stay apart as they were."""
    tokens = [f"{number:04}.renewed" for number in range(24)]
    before = site.workers_of(tokens)
    is_over = threading.Event()

    def ask(own: list[str]) -> Counter[str]:
        seen: Counter[str] = Counter()
        with httpx.Client(timeout=60) as client:
            while not is_over.is_set():
                for number, token in enumerate(own):
                    try:
                        answer = client.request(
                            "POST" if number % 2 else "GET", site.base, headers={"Authorization": f"Bearer {token}"}
                        )
                        seen[str(answer.status_code)] += 1
                    except httpx.HTTPError as error:
                        seen[type(error).__name__] += 1
        return seen

    def are_renewed() -> bool:
        return not set(before) & set(site.workers_of(tokens))

    with ThreadPoolExecutor(6) as pool:
        asking = [pool.submit(ask, tokens[at::6]) for at in range(6)]
        try:
            site.process.send_signal(signal.SIGHUP)
            _wait(are_renewed)
        finally:
            is_over.set()
        seen = sum((one.result() for one in asking), Counter())
    assert set(seen) == {"200"}, seen
    assert seen.total() > 100
    successors = set(zip(before, site.workers_of(tokens), strict=True))
    assert len(successors) == WORKERS  # each worker's tokens went together, to the one that has its socket now
