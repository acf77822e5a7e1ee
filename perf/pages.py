"""What each page costs: CPU time of the server per GET, as a table. ``python -m perf.pages [GETs of each page]``.

The question whether a device is one's own is the answer to a form, which is sent as often. It ends with 1 where a page
costs more than ``MOST_MS``.

CPU time of all threads, hence fair beside other work; ``docs/performance/index.md`` has what was measured.
"""

import html
import json
import re
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx

from perf.load.oauth_messages import REDIRECT_URI, Application, Asking
from perf.rig.console import say
from perf.rig.processes import Server, StartError, free_port, thread_times
from perf.rig.seed import PASSWORD, email_of
from perf.rig.site_setup import prepare, prepare_site, serve, site_environment

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
#: What staff open: the start page, and the list of people.
ADMIN: Final = ("/admin/", "/admin/accounts/user/")
CLIENT: Final = (
    "oauth_client", "create", "--name", "Benchmark", "--redirect-uri", REDIRECT_URI,
    *(f"--grant={grant}" for grant in ("authorization_code", "refresh_token", "device_code")),
)  # fmt: skip
_HIDDEN: Final = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)"')


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
        prepare_site(environment, people=1, superuser=True)
        client = json.loads(prepare(["manage.py", *CLIENT], environment))
        server = serve(Path(folder, "serve.log"), port, environment, stack)
        origin, here = f"http://127.0.0.1:{port}", {"Sec-Fetch-Site": "same-origin"}
        browser = stack.enter_context(httpx.Client(base_url=origin, headers=here, timeout=60))
        measured = [(path, *cost(server, browser, path, gets)) for path in PAGES]
        known = {"email": email_of(0), "password": PASSWORD, "transport": "cookie"}
        sent(browser, "/api/v1/access/signin", json=known)
        person = browser.get("/api/v1/access/me").json()["id"]
        measured += [(path, *cost(server, browser, path, gets)) for path in (f"/account/security{row}" for row in ROWS)]
        for name, path, form in made_first(browser, person, client):
            measured.append((name, *cost(server, browser, path, gets, form)))
        enter_admin(browser, origin)
        measured += [(path, *cost(server, browser, path, gets)) for path in ADMIN]
        one = f"/admin/accounts/user/{person}/change/"
        measured.append(("/admin/accounts/user/<id>/change/", *cost(server, browser, one, gets)))
    say("| page | bytes | CPU ms per GET: least (most) of the rounds |\n|---|---|---|")
    for path, size, rounds in measured:
        say(f"| `{path}` | {size:,} | {min(rounds):.2f} ({max(rounds):.2f}) |")
    dear = [path for path, _, rounds in measured if min(rounds) > MOST_MS]
    say(f"more than {MOST_MS} ms: {', '.join(dear)}" if dear else f"no page takes more than {MOST_MS} ms")
    return 1 if dear else 0


def made_first(
    browser: httpx.Client, person: str, client: Mapping[str, str]
) -> list[tuple[str, str, dict[str, str] | None]]:
    """Make what pages are about: an organisation, a sign-in at a client, and a device that waits.

    Args:
        browser: Of the person, who is signed in and has every right.
        person: Their id.
        client: What the command that has made the client prints.

    Returns:
        The name of each page in the table, its path, and the form that it answers; None for a GET.
    """
    made = sent(browser, "/api/v1/staff/organizations", json={"name": "Acme", "owner": person}).json()
    asking = Asking.anew().target(Application(client["client_id"], client["client_secret"], "", {}))
    sealed = {name: html.unescape(value) for name, value in _HIDDEN.findall(browser.get(asking).text)}
    sent(browser, "/oauth/signin", data={**sealed, "email": email_of(0), "password": PASSWORD})
    secret = {name: client[name] for name in ("client_id", "client_secret")}
    begun = sent(browser, "/oauth/device_authorization", data={**secret, "scope": "openid"}).json()
    return [
        ("/account/security/organizations/<id>", f"/account/security/organizations/{made['id']}", None),
        ("/oauth/authorize (consent)", asking, None),
        ("/oauth/device (confirmation)", "/oauth/device", {"user_code": begun["user_code"]}),
    ]


def enter_admin(browser: httpx.Client, origin: str) -> None:
    """Sign in to the admin by its form."""
    login = "/admin/login/"
    token = browser.get(login).text.partition('name="csrfmiddlewaretoken" value="')[2].partition('"')[0]
    known = {"username": email_of(0), "password": PASSWORD, "csrfmiddlewaretoken": token, "next": "/admin/"}
    sent(browser, login, data=known, headers={"Referer": f"{origin}{login}"})


def sent(browser: httpx.Client, path: str, **given: Any) -> httpx.Response:
    """Send a form or an object, and return the answer.

    Raises:
        StartError: It was refused.
    """
    answer = browser.post(path, **given)
    if answer.is_error:
        raise StartError(f"{path}: {answer.status_code} {answer.text[:500]}")
    return answer


def cost(
    server: Server, browser: httpx.Client, path: str, gets: int, form: Mapping[str, str] | None = None
) -> tuple[int, list[float]]:
    """Return a page's bytes, and the server's CPU milliseconds per request in each round.

    Args:
        server: That is measured.
        browser: That asks.
        path: Of the page.
        gets: How often in a round.
        form: What the page is the answer to; None for a GET.

    Raises:
        StartError: The server broke, or led elsewhere.
    """
    rounds = []
    for count in (WARMING, *[gets] * ROUNDS):
        before = sum(thread_times(server.pid))
        for _ in range(count):
            answer = browser.get(path) if form is None else browser.post(path, data=form)
            if answer.is_redirect or answer.is_server_error:
                raise StartError(f"{path}: {answer.status_code}")
        rounds.append(1_000 * (sum(thread_times(server.pid)) - before) / count)
    return len(answer.content), rounds[1:]


if __name__ == "__main__":
    sys.exit(main())
