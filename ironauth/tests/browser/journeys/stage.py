"""The site that all journeys share: one server, one application, another provider, and people who wait to be used."""

import json
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Final

import httpx
import pytest
from django.conf import settings

from accounts.tests.mail_files import MailFiles
from conftest import MIGRATED, PASSWORD, process_environment, served
from ironauth import settings_test
from ironauth.tests.browser.journeys import furnish
from ironauth.tests.browser.journeys.look import Look
from ironauth.tests.browser.test_oauth import wiki_server
from tokens.oauth.tests.clients.program import JAVASCRIPT, node

FURNISH: Final = "from ironauth.tests.browser.journeys import furnish; furnish.main()"
#: Everything that pages can offer.
OFFERS: Final = {
    "DEBUG": "1",  # the other provider speaks http
    "IRONAUTH_UPSTREAM_NETWORKS": "127.0.0.0/8",
    "IRONAUTH_EMAIL_VERIFICATION": "required",
    "IRONAUTH_SIGN_IN_BY_EMAIL": "1",
    "IRONAUTH_KEEP_DEVICE_DAYS": "30",
    "IRONAUTH_SIGN_IN_AS": "1",
    "IRONAUTH_TERMS_VERSION": "2026-11",
    "IRONAUTH_TERMS_URL": "https://example.com/terms",
    "IRONAUTH_PRIVACY_URL": "https://example.com/privacy",
    "IRONAUTH_SUPPORT_URL": "https://example.com/help",
}


class Stage:
    """Where journeys take place."""

    def __init__(
        self,
        origin: str,
        mail: MailFiles,
        wiki: str,
        issuer: str | None,
        made: dict[str, str],
        beside: Callable[..., AbstractContextManager[str]],
    ) -> None:
        self.origin = origin
        self.mail = mail
        self.wiki = wiki
        self.issuer = issuer
        self.client, self.secret = made["client"], made["secret"]
        #: What axe-core has judged, in each look.
        self.judged: defaultdict[Look, set[str]] = defaultdict(set)
        self._people, self._staff = count(), count()
        #: Runs a server with other settings (environment variables) on the same database, and returns its origin. No
        #: other walk has it beside it: it delivers mail as well, with links to itself.
        self.beside = beside

    def person(self) -> str:
        """Return the address of somebody no other journey uses; the password is PASSWORD."""
        return _next(self._people, furnish.PEOPLE, furnish.PERSON)

    def helper(self) -> str:
        """Return the address of a superuser no other journey uses."""
        return _next(self._staff, furnish.STAFF, furnish.HELPER)

    def api(self, agent: str = "curl/8.9") -> httpx.AsyncClient:
        """Return a client of the API."""
        return httpx.AsyncClient(base_url=self.origin, timeout=30, headers={"User-Agent": agent})


def _next(counter: "count[int]", most: int, address: str) -> str:
    number = next(counter)
    assert number < most, "furnish more people"
    return address.format(number)


@contextmanager
def other_provider(redirect_uri: str) -> Iterator[str | None]:
    """Run oidc-provider; its issuer, or None where there is no Node.js."""
    try:
        command = [node(), str(JAVASCRIPT / "upstream.mjs"), furnish.CLIENT_ID, furnish.SECRET, redirect_uri]
    except pytest.skip.Exception:
        yield None
        return
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=JAVASCRIPT, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["oidc-provider"]
        process.stdin.close()  # type: ignore[union-attr] # a pipe, which it serves until the end of


@contextmanager
def set_up(folder: Path) -> Iterator[Stage]:
    """Run all of it, on a database of its own.

    Args:
        folder: An empty folder for database, mail and log.
    """
    port = settings_test._free_port()
    origin, mail = f"http://localhost:{port}", MailFiles(folder / "mail")
    database = folder / "data" / "journeys.sqlite3"
    database.parent.mkdir(mode=0o700)
    shutil.copyfile(MIGRATED, database)
    database.chmod(0o600)
    here = {**OFFERS, "IRONAUTH_ISSUER": origin, "EMAIL_URL": mail.url, "DATABASE_URL": f"sqlite:///{database}"}
    with ExitStack() as running:
        wiki = running.enter_context(wiki_server())
        issuer = running.enter_context(other_provider(f"{origin}/oauth/upstream/acme"))
        command = [sys.executable, "manage.py", "shell", "--verbosity", "0", "--command", FURNISH]
        told = json.dumps({"password": PASSWORD, "wiki": wiki, "issuer": issuer})
        made = subprocess.run(
            command, cwd=settings.BASE_DIR, env=process_environment(**here), input=told,
            text=True, stdout=subprocess.PIPE, timeout=120, check=True,
        )  # fmt: skip
        running.enter_context(served(folder / "serve.log", port=port, environment=process_environment(**here)))

        @contextmanager
        def beside(**changes: str) -> Iterator[str]:
            port = settings_test._free_port()
            other = f"http://localhost:{port}"
            environment = process_environment(**{**here, **changes, "IRONAUTH_ISSUER": other})
            with served(folder / f"serve-{port}.log", port=port, environment=environment):
                yield other

        yield Stage(origin, mail, wiki, issuer, json.loads(made.stdout), beside)
