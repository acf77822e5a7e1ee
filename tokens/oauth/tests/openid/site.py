"""The server as deploy/ sets it up, on SQLite: the nginx that ships, TLS, a Unix socket, and its first start."""

import itertools
import json
import secrets
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx
from django.conf import settings

from conftest import PASSWORD, process_environment
from ironauth.tests.deploy.chain import HOST, MTLS, START_S, Chain
from ironauth.tests.private_ca import PrivateCa

ISSUER: Final = f"https://{HOST}"
ACCESS: Final = "/api/v1/access"
CALLBACK: Final = "https://app.example.com/callback"
#: Where an application of the test may listen, for messages of the server.
NETWORK: Final = "127.0.0.0/8"
#: All that the person says of themselves.
PROFILE: Final = {
    "name": "Mia Meyer", "given_name": "Mia", "family_name": "Meyer", "preferred_username": "mia",
    "zoneinfo": "Europe/Berlin",
}  # fmt: skip
_OPERATOR: Final = (
    "oauth_client", "create", "--name", "Operator", "--administers", "--grant", "client_credentials",
    "--scope", "clients:read", "--scope", "clients:write",
)  # fmt: skip


class _Transport(httpx.BaseTransport):
    """Finds the issuer's hosts at nginx' port here, from an address of its own: nginx counts each by itself.

    ``shown``: the files of a certificate and its key, which it shows where it is asked for one.
    """

    def __init__(self, site: "Site", address: str, shown: tuple[str, str] | None = None) -> None:
        context = site.context
        if shown is not None:
            context = site.trust()
            context.load_cert_chain(*shown)
        # nginx refuses who comes to one host by the connection that was made to another (421)
        self._hosts = {host: httpx.HTTPTransport(verify=context, local_address=address) for host in (HOST, MTLS)}
        self._port = site.https

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request; only the issuer's hosts are there."""
        assert request.url.scheme == "https", request.url
        here = request.url.copy_with(host="127.0.0.1", port=self._port)
        extensions = {**request.extensions, "sni_hostname": request.url.host}
        sent = httpx.Request(
            request.method, here, headers=request.headers, stream=request.stream, extensions=extensions
        )  # a copy: cookies are those of the address that was asked for
        return self._hosts[request.url.host].handle_request(sent)

    def close(self) -> None:
        """Close the connections to both."""
        for transport in self._hosts.values():
            transport.close()


class Site(Chain):
    """A server that a plan's modules ask. ``email``: of the person who has an account."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, application_port=3000)
        self.context = self.trust()
        self.email = "mia@example.com"
        applications = PrivateCa(folder, "applications")
        #: Certificate and key of an application at 127.0.0.1 that the server calls.
        self.application_files = applications.sign("application")
        self._database = folder / "ironauth.sqlite3"
        self._environment = process_environment(
            DATABASE_URL=f"sqlite:///{self._database}",
            REDIS_URL="",
            IRONAUTH_ISSUER=ISSUER,
            ALLOWED_HOSTS=f"{HOST},{MTLS}",
            IRONAUTH_MTLS_ORIGIN=f"https://{MTLS}",
            IRONAUTH_TRUSTED_PROXIES="unix",
            IRONAUTH_COOKIE_SECURE="1",
            IRONAUTH_REGISTRATION="open",
            IRONAUTH_REGISTRATION_WITHOUT_PKCE="1",
            IRONAUTH_LOGOUT_NETWORKS=NETWORK,
            IRONAUTH_CLIENT_DOCUMENT_NETWORKS=NETWORK,
            IRONAUTH_REQUEST_URIS="1",
            EMAIL_URL=f"filemail://{folder}/mail",
            SSL_CERT_FILE=str(applications.file),
            IRONAUTH_DATABASE_TIMEOUT_S="20",  # beside other parts of the suite a unit of work may wait for a core
        )
        self._addresses = itertools.count(1)
        self._operator: dict[str, Any] = {}
        self._open: list[httpx.Client] = []

    def start(self) -> None:
        """Start nginx and the server, make a client that makes clients, and somebody's account."""
        self._start_nginx()
        self.start_server("--migrate")
        self._operator = json.loads(self.manage(*_OPERATOR))
        self._sign_up()

    def start_server(self, *more: str) -> None:
        """Start the product on the socket that nginx knows."""
        command = [sys.executable, "manage.py", "serve", "--uds", str(self.socket), *more]
        self._run("server", command, self.socket, env=self._environment, cwd=settings.BASE_DIR)
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(self.socket))) as client:
            answer = client.get("http://localhost/health", headers={"Host": HOST}, timeout=START_S)
        assert answer.status_code == 200, answer.text + self.log("server")

    def close(self) -> None:
        """End both."""
        for name in ("nginx", "server"):
            if name in self._running:
                self.stop(name)

    def new_http(self, shown: tuple[str, str] | None = None) -> httpx.Client:
        """Return a client with cookies of its own, at an address of its own.

        Args:
            shown: Files of a certificate and its key, for the host that asks for one.
        """
        number = next(self._addresses)
        address = f"127.{1 + number // 62_500}.{number // 250 % 250}.{1 + number % 250}"
        client = httpx.Client(base_url=ISSUER, transport=_Transport(self, address, shown), timeout=30)
        self._open.append(client)
        return client

    def close_clients(self) -> None:
        """Close the connections of a module that has ended."""
        while self._open:
            self._open.pop().close()

    def make_client(self, **fields: Any) -> dict[str, Any]:
        """Make a client by the admin API; return what the API says of it."""
        with self.new_http() as client:
            known = {"client_id": self._operator["client_id"], "client_secret": self._operator["client_secret"]}
            asked = {"grant_type": "client_credentials", "scope": "clients:read clients:write", **known}
            token = client.post("/oauth/token", data=asked).json()["access_token"]
            given = {"name": f"App {secrets.token_hex(4)}", "redirect_uris": [CALLBACK], **fields}
            headers = {"Authorization": f"Bearer {token}"}
            answer = client.post("/api/v1/clients", json=given, headers=headers)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def move_back(self, table: str, columns: tuple[str, ...], seconds: float, where: Mapping[str, str]) -> None:
        """Let time pass for rows: their moments lie that much further back than they were.

        Args:
            table: Its name.
            columns: What holds moments.
            seconds: How long.
            where: What the rows have, by column.
        """
        condition = " AND ".join(f"{name} = ?" for name in where)
        with closing(sqlite3.connect(self._database, timeout=30, isolation_level=None)) as connection:
            for column in columns:
                select = f"SELECT rowid, {column} FROM {table} WHERE {condition}"  # noqa: S608 - our own names
                found = connection.execute(select, tuple(where.values())).fetchall()
                assert found, (table, where)
                for row, text in found:
                    moment = datetime.fromisoformat(text).replace(tzinfo=UTC) - timedelta(seconds=seconds)
                    written = moment.strftime("%Y-%m-%d %H:%M:%S.%f")
                    connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (written, row))  # noqa: S608 - as above

    def _sign_up(self) -> None:
        """Make the person's account; they say of themselves all that can be said."""
        known = {"email": self.email, "password": PASSWORD}
        with self.new_http() as client:
            answers = [client.post(f"{ACCESS}/signup", json={**known, "name": PROFILE["name"]})]
            pair = client.post(f"{ACCESS}/signin", json=known).json()
            client.headers["Authorization"] = f"Bearer {pair['access_token']}"
            answers.append(client.patch(f"{ACCESS}/me", json=PROFILE))
            answers.append(client.put(f"{ACCESS}/me/language", json={"language": "en"}))
        assert all(answer.is_success for answer in answers), [answer.text for answer in answers]

    def manage(self, *arguments: str) -> str:
        """Run a command of the product as an operator; return what it prints."""
        command = [sys.executable, "manage.py", *arguments]
        ran = subprocess.run(
            command, cwd=settings.BASE_DIR, env=self._environment, check=True, capture_output=True, text=True
        )
        return ran.stdout
