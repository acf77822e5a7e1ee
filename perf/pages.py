"""What each page costs: CPU time of the server per GET, as a table. ``python -m perf.pages [GETs of each page]``.

It ends with 1 where a page costs more than ``MOST_MS``.

CPU time of all threads, hence fair beside other work; ``docs/performance/index.md`` has what was measured.
"""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import httpx

from perf.rig.console import say
from perf.rig.processes import Server, StartError, free_port, thread_times
from perf.rig.seed import PASSWORD, email_of
from perf.rig.site_setup import prepare_site, serve, site_environment

GETS, WARMING, ROUNDS = 200, 20, 3
MOST_MS: Final = 200  # of CPU time for any page
#: What strangers open, and, once somebody is signed in, the rows of the account.
PAGES: Final = (
    "/", "/account/signin", "/account/signup", "/account/forgot", "/account/verify-again", "/oauth/device",
    "/oauth/logout", "/password/reset?token=x", "/email/verify?token=x", "/account/invitation?token=x",
)  # fmt: skip
ROWS: Final = (
    "", "/name", "/email", "/password", "/passkeys", "/codes", "/recovery", "/identities", "/sessions", "/devices",
    "/applications", "/language", "/data", "/delete", "/organizations",
)  # fmt: skip


def main() -> int:
    """Serve a site, ask for each page in turns, and print the table."""
    gets = int(sys.argv[1]) if len(sys.argv) > 1 else GETS
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        port = free_port()
        environment = site_environment(Path(folder), port=port, hash_threads=1)
        environment |= {
            "IRONAUTH_SIGN_IN_BY_EMAIL": "1",
            "IRONAUTH_COOKIE_SECURE": "0",
            "IRONAUTH_ORGANIZATIONS": "anybody",
        }
        prepare_site(environment, people=1)
        server = serve(Path(folder, "serve.log"), port, environment, stack)
        browser = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60))
        measured = [(path, *cost(server, browser, path, gets)) for path in PAGES]
        known = {"email": email_of(0), "password": PASSWORD, "transport": "cookie"}
        if not (answer := browser.post("/api/v1/access/signin", json=known)).is_success:
            raise StartError(f"nobody could sign in: {answer.text}")
        measured += [(path, *cost(server, browser, path, gets)) for path in (f"/account/security{row}" for row in ROWS)]
    say("| page | bytes | CPU ms per GET: least (most) of the rounds |\n|---|---|---|")
    for path, size, rounds in measured:
        say(f"| `{path}` | {size:,} | {min(rounds):.2f} ({max(rounds):.2f}) |")
    dear = [path for path, _, rounds in measured if min(rounds) > MOST_MS]
    say(f"more than {MOST_MS} ms: {', '.join(dear)}" if dear else f"no page takes more than {MOST_MS} ms")
    return 1 if dear else 0


def cost(server: Server, browser: httpx.Client, path: str, gets: int) -> tuple[int, list[float]]:
    """Return a page's bytes, and the server's CPU milliseconds per GET in each round.

    Raises:
        StartError: The server broke, or led elsewhere.
    """
    rounds = []
    for count in (WARMING, *[gets] * ROUNDS):
        before = sum(thread_times(server.pid))
        for _ in range(count):
            answer = browser.get(path)
            if answer.is_redirect or answer.is_server_error:
                raise StartError(f"{path}: {answer.status_code}")
        rounds.append(1_000 * (sum(thread_times(server.pid)) - before) / count)
    return len(answer.content), rounds[1:]


if __name__ == "__main__":
    sys.exit(main())
