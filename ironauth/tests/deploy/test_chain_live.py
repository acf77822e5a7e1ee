"""The whole chain as deploy/ configures it: what passes, what it refuses, and what a backup brings back."""

import json
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import pytest_django
import redis
from django.contrib.auth.models import Permission
from django.db import connections

from conftest import PASSWORD, bearer
from ironauth import settings_test
from ironauth.config import storage as setting_storage
from ironauth.tests.deploy.chain import APPLICATION, HOST, Chain, program
from ironauth.tests.deploy.files import runbook
from ironauth.tests.services import BinaryMissing

pytestmark = [pytest.mark.storage, pytest.mark.only_postgres]

HEADERS = {
    "strict-transport-security": "max-age=31536000",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}
ACCESS = "/api/v1/access"


class Application(BaseHTTPRequestHandler):
    """The application behind forward-auth: says who nginx told it that the caller is."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({name.lower(): value for name, value in self.headers.items()}).encode())

    def log_message(self, *_arguments: object) -> None:
        """Stay quiet."""


@pytest.fixture(scope="module")
def chain() -> Iterator[Chain]:
    """Everything, started once: it takes some seconds."""
    try:
        for name, package in (("nginx", "nginx-light"), ("pgbouncer", "pgbouncer")):
            program(name, package)
    except BinaryMissing as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))
    folder = settings_test.RUN_FOLDER / "deploy"
    folder.mkdir(mode=0o711)
    with ThreadingHTTPServer(("127.0.0.1", 0), Application) as application:
        thread = threading.Thread(target=application.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        made = Chain(folder, application.server_port)
        try:
            made.start()
            yield made
        finally:
            made.close()
            application.shutdown()
            thread.join()


@pytest.fixture
def person(chain: Chain, new_email: Callable[[], str]) -> dict[str, Any]:
    """Somebody who has signed up and in at an address of their own: the TokenPair, ``email`` and ``ip``."""
    email, ip = new_email(), ".".join(("127", *(str(1 + byte % 254) for byte in os.urandom(3))))
    with chain.client(address=ip) as client:
        made = client.post(f"{ACCESS}/signup", json={"email": email, "password": PASSWORD, "name": "Mia"})
        assert made.status_code == 201, made.text
        return {"email": email, "ip": ip, **_signed_in(client, email)}


def _signed_in(client: httpx.Client, email: str) -> dict[str, Any]:
    lies = {"X-Forwarded-For": "192.0.2.66", "X-Forwarded-Proto": "http"}
    answer = client.post(f"{ACCESS}/signin", json={"email": email, "password": PASSWORD}, headers=lies)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def _says(answer: httpx.Response, status: int, code: str) -> None:
    """Hold a problem document of nginx' own against the API's form and headers."""
    problem = answer.json()
    assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["request_id"] == answer.headers["x-request-id"]
    assert {name: answer.headers.get_list(name) for name in HEADERS} == {name: [HEADERS[name]] for name in HEADERS}


def _negotiated(chain: Chain, context: ssl.SSLContext, host: str = HOST) -> tuple[str | None, str | None]:
    """Return protocol version and application protocol that nginx agrees to."""
    context.set_alpn_protocols(["h2", "http/1.1"])
    with (
        socket.create_connection(("127.0.0.1", chain.https), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname=host) as secure,
    ):
        return secure.version(), secure.selected_alpn_protocol()


def test_tls_1_3_and_http_2_alone(chain: Chain) -> None:
    """TLS 1.2 is refused, and so is a name that is not ours; http leads browsers to https and takes nothing."""
    assert _negotiated(chain, chain.trust()) == ("TLSv1.3", "h2")
    with pytest.raises(ssl.SSLError):
        _negotiated(chain, chain.trust(maximum_version=ssl.TLSVersion.TLSv1_2))
    with pytest.raises(ssl.SSLError):
        _negotiated(chain, chain.trust(), "other.example.com")
    plain, named = f"http://127.0.0.1:{chain.http}/x?y=1", {"Host": HOST}
    led = httpx.get(plain, headers=named)
    assert (led.status_code, led.headers["location"]) == (308, f"https://{HOST}/x?y=1")
    assert httpx.post(plain, headers=named).status_code == 403
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(plain, headers={"Host": "other.example.com"})
    asked = ["--resolve", f"{HOST}:{chain.https}:127.0.0.1", "--cacert", str(chain.authority.file), "--http2"]
    curl = ["curl", "-sS", *asked, "-w", " %{http_version}", f"https://{HOST}:{chain.https}/ping"]
    assert subprocess.run(curl, check=True, capture_output=True, text=True).stdout == "OK 2"


def test_a_person_walks_through_the_whole_chain(chain: Chain, person: dict[str, Any]) -> None:
    """Sign-in, /me, refresh, sign-out; the address is the client's own, whatever a header says."""
    with chain.client(address=person["ip"]) as client:
        pair = _signed_in(client, person["email"])
        me = client.get(f"{ACCESS}/me", headers=bearer(pair))
        assert (me.status_code, me.json()["email"]) == (200, person["email"])
        assert {name: me.headers.get_list(name) for name in HEADERS} == {name: [HEADERS[name]] for name in HEADERS}
        assert me.headers["server"] == "nginx"  # and no version
        sessions = client.get(f"{ACCESS}/sessions", headers=bearer(pair)).json()
        assert {each["ip"] for each in sessions} == {person["ip"]}
        renewed = client.post(f"{ACCESS}/refresh", json={"refresh_token": pair["refresh_token"]})
        assert renewed.status_code == 200, renewed.text
        assert client.post(f"{ACCESS}/logout", headers=bearer(renewed.json())).status_code == 204
        assert client.get(f"{ACCESS}/me", headers=bearer(renewed.json())).status_code == 401
        figures = client.get("/metrics")
        assert (figures.status_code, "nginx" in figures.text) == (404, True)  # the server is not even asked
        pages = client.get("/account/signin")
        assert (pages.status_code, len(pages.headers.get_list("content-security-policy"))) == (200, 1)
    with chain.client() as other:
        form = other.post(f"{ACCESS}/signin", data={"username": person["email"], "password": PASSWORD})
        assert form.status_code == 204, form.text
        assert all("; Secure" in each for each in form.headers.get_list("set-cookie"))
        other.cookies.clear()
        assert _signed_in(other, person["email"])["session_id"] != person["session_id"]
        last = other.get(f"{ACCESS}/sessions", headers=bearer(person)).json()
    assert {each["ip"] for each in last} == {"127.0.0.1", person["ip"]}


def test_what_leaves_no_trace_in_logs(chain: Chain, person: dict[str, Any]) -> None:
    """No token of a link, no address, no statement: neither nginx nor Postgres writes any, also when it refuses."""
    with chain.client() as client:
        client.get("/email/verify", params={"token": "canary-in-a-link"}, headers={"Referer": "https://x/?canary=1"})
        client.get("/email/verify", params={"token": "canary-" * 2_000})
    with pytest.raises(psycopg.errors.UniqueViolation):
        chain.as_superuser(f"INSERT INTO accounts_user SELECT * FROM accounts_user WHERE email = '{person['email']}'")  # noqa: S608
    assert "duplicate key" in chain.postgres.log.read_text()
    written = chain.postgres.log.read_text() + chain.log("nginx") + (chain.folder / "access.log").read_text()
    assert '"GET /email/verify HTTP/1.1" ' in written
    for secret in ("canary", person["email"], PASSWORD):
        assert secret not in written, secret


def test_postgres_takes_every_line_of_its_file(chain: Chain) -> None:
    """No line is unknown or overruled, but for those that the test gives itself; new connections need no SET."""
    set_here = "('fsync', 'shared_buffers', 'max_connections')"
    refused = f"SELECT name, setting, error FROM pg_file_settings WHERE NOT applied AND name NOT IN {set_here}"  # noqa: S608
    assert chain.as_superuser(refused) == []
    assert chain.as_superuser("SELECT count(*) > 25 FROM pg_file_settings WHERE applied") == [(True,)]
    assert chain.as_superuser("SHOW timezone") == [("UTC",)]
    assert chain.as_superuser("SELECT upper('ä'), 'Z' < 'a'") == [("Ä", True)]  # case of every script, order of none


def test_a_pooler_is_in_between(chain: Chain, person: dict[str, Any]) -> None:
    """The server's statements arrive by PgBouncer, over connections that transactions share, none of them prepared."""
    assert "prepared_statements_off" in chain.log("server")
    users = chain.as_superuser("SELECT usename, application_name FROM pg_stat_activity WHERE datname = 'ironauth'")
    assert 0 < sum(name == "ironauth" for name, _ in users) <= 20
    log = chain.log("server")
    assert not [line for line in log.splitlines() if '"level":"error"' in line], log
    wrong = f"postgres://ironauth:wrong@127.0.0.1:{chain.pooler}/ironauth"
    with pytest.raises(psycopg.OperationalError, match=r"password authentication failed|SASL authentication failed"):
        psycopg.connect(wrong)


def test_rows_are_read_on_while_others_use_the_pooler(
    chain: Chain, django_db_blocker: pytest_django.DjangoDbBlocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Django reads in parts (the admin's choices) goes on when another client has its server connection."""
    url = next(line for line in (chain.secrets / "env").read_text().splitlines() if line.startswith("DATABASE_URL="))
    found = setting_storage.database(url.partition("=")[2], "DATABASE_URL")
    monkeypatch.setitem(connections.settings, "pooled", {**connections.settings["default"], **found})
    with django_db_blocker.unblock(), psycopg.connect(url.partition("=")[2]) as other:
        try:
            names = Permission.objects.using("pooled").order_by("pk").values_list("codename", flat=True)
            reading = names.iterator(chunk_size=10)
            seen = [next(reading)]
            other.execute("SELECT 1")  # begins a transaction
            seen.extend(reading)
            assert seen == list(names)
        finally:
            connections["pooled"].close()
            del connections["pooled"]


def test_a_full_redis_forgets_nothing_and_stops_nobody(chain: Chain, person: dict[str, Any]) -> None:
    """It refuses to store instead of throwing counts away; sign-in and /me go on, and are counted in the database."""
    counted = "SELECT count(*) FROM infrastructure_throttlewindow"
    with redis.Redis(unix_socket_path=str(chain.redis_socket)) as store, chain.client(address="127.0.0.3") as client:
        assert store.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        kept, before = set(store.keys()), chain.as_superuser(counted)
        assert kept
        store.config_set("maxmemory", 1)
        try:
            assert client.get(f"{ACCESS}/me", headers=bearer(_signed_in(client, person["email"]))).status_code == 200
        finally:
            store.config_set("maxmemory", "256mb")
        assert store.info("stats")["evicted_keys"] == 0
    assert chain.as_superuser(counted) > before


def test_an_application_behind_forward_auth(chain: Chain, person: dict[str, Any]) -> None:
    """It hears from nginx who is there, whatever callers claim; without a good token it hears nothing."""
    with chain.client(APPLICATION) as client:
        heard = client.get("/", headers={**bearer(person), "X-Auth-Subject": "somebody-else"})
        assert heard.status_code == 200, heard.text
        assert heard.json()["x-auth-session"] == person["session_id"]
        assert heard.json()["x-auth-subject"] != "somebody-else"
        assert "authorization" not in heard.json()
        for bad in ({}, {"Authorization": "Bearer x"}):
            assert client.get("/", headers=bad).status_code == 401


def test_whoever_asks_too_much_is_told_so(chain: Chain) -> None:
    """What is costly has a limit far below that of everything else; the answers have the API's form."""
    with chain.client(address="127.0.0.4") as client:
        answers = [client.post(f"{ACCESS}/signin", json={}) for _ in range(40)]
        assert [answer.status_code for answer in answers[:20]] == [400] * 20
        refused = next(answer for answer in answers if answer.status_code != 400)
        _says(refused, 429, "throttled")
        assert refused.headers["retry-after"] == "1"
        assert client.get("/ping").status_code == 200
        large = client.post(f"{ACCESS}/me", content=b"x" * 1_200_000)
        _says(large, 413, "body_too_large")
    with chain.client(address="127.0.0.5") as client:
        assert client.post(f"{ACCESS}/signin", json={}).status_code == 400
        statuses = [client.get("/ping").status_code for _ in range(60)]
        assert set(statuses) == {200}


def test_a_backup_brings_everything_back(chain: Chain, person: dict[str, Any], tmp_path: Path) -> None:
    """The runbook's own lines, on servers that stop and start: sessions live on, and end when the runbook ends them."""
    env = {**chain.libpq, "BACKUP": str(tmp_path / "ironauth.dump")}
    dump, _sqlite = runbook("Backup")
    subprocess.run(["sh", "-euc", dump], env=env, check=True)
    assert (tmp_path / "ironauth.dump").stat().st_mode & 0o777 == 0o600
    assert chain.stop("server") == 0
    with chain.client() as client:
        gone = client.get(f"{ACCESS}/me", headers=bearer(person))
        _says(gone, 503, "unavailable")
        assert gone.headers["retry-after"] == "2"
        assert chain.stop("pgbouncer") == 0
        (restore,) = runbook("Restore")
        subprocess.run(["sh", "-euc", restore], env=env, check=True)
        _same_rows(chain)
        chain.start_pgbouncer()
        chain.start_server("--workers", "1")  # it starts sooner
        renewed = client.post(f"{ACCESS}/refresh", json={"refresh_token": person["refresh_token"]})
        assert renewed.status_code == 200, renewed.text
        (end_sessions,) = runbook("Restore", "sql")
        chain.as_superuser(end_sessions)
        ended = client.post(f"{ACCESS}/refresh", json={"refresh_token": renewed.json()["refresh_token"]})
        assert ended.status_code == 401


def _same_rows(chain: Chain) -> None:
    """Compare every table of the restored database with the one of before, and who owns them."""
    tables = "SELECT tablename, tableowner FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
    assert chain.as_superuser(tables) == chain.as_superuser(tables, "ironauth_before")
    for table, owner in chain.as_superuser(tables):
        assert owner == "ironauth"
        digest = f'SELECT count(*), md5(string_agg(t::text, chr(10) ORDER BY t::text)) FROM "{table}" t'  # noqa: S608
        assert chain.as_superuser(digest) == chain.as_superuser(digest, "ironauth_before"), table
    triggers = "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1"
    assert chain.as_superuser(triggers) == chain.as_superuser(triggers, "ironauth_before")
