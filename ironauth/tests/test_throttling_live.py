"""Throttles of real server processes: one count for all, kept over a restart, whatever happens to Redis."""

import os
import signal
import subprocess
import sys

import httpx
import pytest
from django.conf import settings

from conftest import PASSWORD, ServeProcess
from ironauth import settings_test
from ironauth.infrastructure.ratelimit.lockout import FREE_FAILURES
from ironauth.tests.services import PrivateRedis

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

LIMIT = 20  # of the address: more than an account's free failures, so that both can be seen
ON = {"IRONAUTH_THROTTLE": "on", "IRONAUTH_THROTTLE_SIGNIN_FAILURES": str(LIMIT), "IRONAUTH_HASH_MAX_WAIT_S": "20"}
WRONG = "not the password at all"


def sign_in(base: str, email: str, password: str = WRONG) -> httpx.Response:
    """Sign in at one of the servers."""
    return httpx.post(f"{base}/api/v1/access/signin", json={"email": email, "password": password}, timeout=20)


def sign_up(base: str, email: str) -> None:
    """Make an account."""
    answer = httpx.post(f"{base}/api/v1/access/signup", json={"email": email, "password": PASSWORD}, timeout=20)
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize(
    ("debug", "found"), [("0", "True 100 30 300 100 30 5"), ("1", "True 100 1000000 300 100 30 5")]
)
def test_throttles_are_on_by_default(debug: str, found: str) -> None:
    """Without any setting; in development sign-ups have no limit that a load test would meet."""
    names = ("", "_SIGNIN_FAILURES", "_SIGNUPS", "_BAD_REFRESHES", "_BAD_EMAIL_TOKENS", "_MAILS", "_MAILS_TO_ONE")
    shown = ", ".join(f"settings.IRONAUTH_THROTTLE{name}" for name in names)
    env = {**os.environ, **settings_test.ENVIRONMENT, "DEBUG": debug, "ALLOWED_HOSTS": "localhost"}
    del env["IRONAUTH_THROTTLE"]
    script = f"from ironauth import settings; print({shown})"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=settings.BASE_DIR, env=env, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == found, done.stderr


def tries_until_refused(base: str, email: str) -> int:
    """Return how many tries it takes: the waits of 1, 2 and 4 s may pass on a busy machine, a new count has ten."""
    for tries in range(1, 4):
        answer = sign_in(base, email)
        if answer.status_code == 429:
            assert 1 <= int(answer.headers["retry-after"]) <= 8
            return tries
        assert answer.status_code == 401
    raise AssertionError("never refused")


@pytest.mark.parametrize("with_redis", [False, True])
def test_processes_share_the_counts_and_a_restart_keeps_them(
    serve_process: ServeProcess, private_redis: PrivateRedis, signing_key: str, with_redis: bool
) -> None:
    """Two servers count an account and an address together; a server started later goes on where they were."""
    redis = {"REDIS_URL": private_redis.url if with_redis else ""}
    servers = [serve_process(**ON, **redis), serve_process(**ON, **redis)]
    statuses = [sign_in(servers[n % 2], "mia@example.com").status_code for n in range(FREE_FAILURES)]
    assert statuses == [401] * FREE_FAILURES
    tries = FREE_FAILURES
    for server in servers:
        tries += tries_until_refused(server, "mia@example.com")
    later = serve_process(**ON, **redis)
    tries += tries_until_refused(later, "mia@example.com")
    found = [sign_in((*servers, later)[n % 3], f"other{n}@example.com").status_code for n in range(LIMIT)]
    let_in = found.count(401)
    assert found == [401] * let_in + [429] * (LIMIT - let_in)
    # Every try counted for the address, those too that the account refused; one more when a window ended meanwhile.
    assert let_in - max(0, LIMIT - tries) in {0, 1}


@pytest.mark.parametrize("fault", ["kill", "freeze", "empty"])
def test_redis_lost_midway_never_means_unlimited(
    serve_process: ServeProcess, private_redis: PrivateRedis, signing_key: str, fault: str
) -> None:
    """The account stays throttled; the address has its limit once more at most, and every request is answered."""
    base = serve_process(**ON, REDIS_URL=private_redis.url)
    sign_up(base, "mia@example.com")
    assert {sign_in(base, "mia@example.com").status_code for _ in range(FREE_FAILURES)} == {401}
    tries_until_refused(base, "mia@example.com")
    assert private_redis.process
    if fault == "freeze":
        private_redis.process.send_signal(signal.SIGSTOP)
    else:
        private_redis.stop(signal.SIGKILL)
    if fault == "empty":
        private_redis.start()
    tries_until_refused(base, "mia@example.com")
    found = [sign_in(base, f"other{n}@example.com").status_code for n in range(2 * LIMIT)]
    assert set(found) == {401, 429}
    assert found.count(401) <= LIMIT
    assert found[-1] == 429
