"""``manage.py demo``: a walk through the API of a running server, every request and answer printed.

It only speaks HTTP, with the standard library: what it shows is what any client sees. Secrets are shortened.
"""

import http.client
import json
import secrets
from argparse import ArgumentParser
from typing import Any
from urllib.parse import urlsplit

from django.core.management.base import BaseCommand, CommandError

from ironauth.infrastructure.core.stdio import ignore_broken_pipe

SHOWN = 6  # characters of a secret printed at either end: enough to recognise it, useless to anybody else
SECRET_FIELDS = frozenset({"password", "access_token", "refresh_token", "current_password", "new_password"})
TIMEOUT_S = 30  # a cold machine under load hashes slowly; beyond this something is wrong

type Json = dict[str, Any]


class Command(BaseCommand):
    """Sign up, sign in, use, refresh, look around and sign out, at a server that runs already."""

    help = "Walk through the API of a running server; fails on any unexpected answer."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the server's address."""
        parser.add_argument("--url", default="http://localhost:8000", help="the running server")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Take the walk. Raises ``CommandError`` at the first unexpected answer, or when nothing answers."""
        self._url: str = options["url"].rstrip("/")
        with ignore_broken_pipe(self.stdout):
            self._walk()

    def _walk(self) -> None:
        email = f"demo-{secrets.token_hex(4)}@example.com"
        password = f"{secrets.token_hex(3)} otters knit {secrets.token_hex(3)} scarves"
        access = "/api/v1/access"

        self._title("Sign up")
        self._call("POST", f"{access}/signup", 201, {"email": email, "password": password, "name": "Demo"})
        self._title("Sign up again: the address is taken")
        self._call("POST", f"{access}/signup", 409, {"email": email, "password": password})
        self._title("Sign in with a wrong password")
        self._call("POST", f"{access}/signin", 401, {"email": email, "password": password + "!"})
        self._title("Sign in")
        pair = self._call("POST", f"{access}/signin", 200, {"email": email, "password": password})
        self._title("Who am I?")
        self._call("GET", f"{access}/me", 200, token=pair["access_token"])
        self._title("Trade the refresh token for a new pair")
        pair = self._call("POST", f"{access}/refresh", 200, {"refresh_token": pair["refresh_token"]})
        self._title("Where am I signed in?")
        self._call("GET", f"{access}/sessions", 200, token=pair["access_token"])
        self._title("What a reverse proxy asks for every request")
        self._call("GET", f"{access}/verify", 204, token=pair["access_token"])
        self._title("The public keys any service verifies tokens with")
        self._call("GET", "/.well-known/jwks.json", 200)
        self._title("Sign out")
        self._call("POST", f"{access}/logout", 204, token=pair["access_token"])
        self._title("The same access token, a moment later")
        self._call("GET", f"{access}/me", 401, token=pair["access_token"])
        self._title("Sign in once more and close the account: its data is deleted after its days of grace")
        pair = self._call("POST", f"{access}/signin", 200, {"email": email, "password": password})
        self._call("DELETE", f"{access}/me", 204, {"password": password}, token=pair["access_token"])
        self.stdout.write(self.style.SUCCESS("\nEvery answer was the expected one."))

    def _title(self, text: str) -> None:
        self.stdout.write(self.style.MIGRATE_HEADING(f"\n# {text}"))

    def _call(self, method: str, path: str, expected: int, body: Json | None = None, token: str = "") -> Any:
        """Send one request, print it and its answer, and return the answer's JSON; ``{}`` without a body."""
        headers = {"Accept": "application/json"}
        self.stdout.write(f"{method} {path}")
        if token:
            headers["Authorization"] = f"Bearer {token}"
            self.stdout.write(f"Authorization: Bearer {_shortened(token)}")
        if body is not None:
            headers["Content-Type"] = "application/json"
            self.stdout.write(json.dumps(_safe(body), ensure_ascii=False))
        status, shown, content = self._send(method, path, headers, None if body is None else json.dumps(body).encode())
        self.stdout.write(f"-> {status}")
        for name, value in shown:
            self.stdout.write(f"   {name}: {value}")
        try:
            answer = json.loads(content) if content else {}
        except ValueError as error:
            raise CommandError(
                f"{method} {path} answered {status} without JSON: is {self._url} an IronAuth? Name it with URL=http://…"
            ) from error
        if content:
            self.stdout.write("   " + json.dumps(_safe(answer), indent=2, ensure_ascii=False).replace("\n", "\n   "))
        if (status, expected) == (202, 201):  # the sign-up's answer where it tells strangers nothing
            raise CommandError(
                f"{self._url} lets nobody in before a message was opened, so the walk ends here: take it on a server "
                "without IRONAUTH_EMAIL_VERIFICATION=required."
            )
        if status != expected:
            raise CommandError(
                f"{method} {path} answered {status} instead of {expected}: see the server's log for this request"
            )
        return answer

    def _send(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Return status, the telling headers, and the content. Raises ``CommandError`` when nothing answers."""
        address = urlsplit(self._url)
        kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
        connection = kind(address.hostname or "", address.port, timeout=TIMEOUT_S)
        try:
            connection.request(method, address.path + path, body, headers)
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise CommandError(
                f"No IronAuth answers at {self._url} ({error}): start it with make run in another terminal, "
                "or name it with URL=http://…"
            ) from error
        finally:
            connection.close()
        telling = [
            pair for pair in response.getheaders() if pair[0].lower().startswith(("x-auth-", "www-auth", "retry"))
        ]
        return response.status, telling, content


def _shortened(secret: str) -> str:
    """Return both ends of ``secret``: two tokens of one key begin alike."""
    return secret if len(secret) <= 2 * SHOWN else f"{secret[:SHOWN]}…{secret[-SHOWN:]}"


def _safe(value: Any) -> Any:
    """Return ``value`` with every secret in it shortened; passwords are not shown at all."""
    if isinstance(value, list):
        return [_safe(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: ("…" if "password" in name else _shortened(item)) if name in SECRET_FIELDS else _safe(item)
        for name, item in value.items()
    }
