"""Clients are told of logouts: by a token they can verify, until they confirm it."""

import asyncio
import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.test import override_settings
from joserfc import jwt
from joserfc.jwk import KeySet
from joserfc.util import urlsafe_b64decode

from conftest import bearer
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db import outbox as queue_delivery
from ironauth.infrastructure.db.outbox import LEASE_S, LONGEST_RETRY_S
from ironauth.infrastructure.db.unit_of_work import database
from tokens.clients import registry as clients
from tokens.clients import subjects
from tokens.clients.models import OAuthClient
from tokens.keys.key_set import Family
from tokens.keys.store import key_store
from tokens.keys.units import create_first_keys
from tokens.oauth import id_tokens
from tokens.oauth.logout import delivery as logout_delivery
from tokens.oauth.logout import units as logout_notices
from tokens.oauth.logout.delivery import LogoutDelivery
from tokens.oauth.models import LogoutNotice
from tokens.oauth.tests.material import make_client

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("still_clock")]

EVENT = "http://schemas.openid.net/event/backchannel-logout"


class Application:
    """A client's server: keeps what it gets, and answers as it is told."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.padding: bytes | None = None
        self.received: list[tuple[dict[str, str], str]] = []
        application = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                application.received.append((dict(self.headers), self.rfile.read(length).decode()))
                self.send_response(application.status)
                for name, value in {"Content-Length": "0", **application.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if application.padding is not None:
                    with suppress(OSError):  # the other side has had enough
                        self.wfile.write(application.padding)
                        self.rfile.read()  # until it goes

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)

    @property
    def uri(self) -> str:
        """Where it wants to hear of logouts."""
        return f"http://127.0.0.1:{self.server.server_port}/logout?app=wiki"

    @property
    def token(self) -> str:
        """The last logout token."""
        (token,) = parse_qs(self.received[-1][1], strict_parsing=True)["logout_token"]
        return token


@pytest.fixture
def application() -> Iterator[Application]:
    """A client's server on a port of its own."""
    found = Application()
    thread = threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


@pytest.fixture
async def delivery() -> Any:
    """What delivers."""
    found = LogoutDelivery()
    yield found
    await found.stop()


async def notice(uri: str, **fields: Any) -> tuple[OAuthClient, LogoutNotice]:
    """Queue a notice to a new client."""
    row, _ = await sync_to_async(make_client)(backchannel_logout_uri=uri, **fields)
    return row, await LogoutNotice.objects.acreate(client=row, user_id=uuid.uuid4(), session_id=uuid.uuid4())


@pytest.mark.parametrize("family", list(Family))
async def test_what_a_client_gets(
    application: Application, delivery: LogoutDelivery, signing_key: str, family: Family
) -> None:
    """A form with a logout token of the client's algorithm, which says who, where and what; then it is forgotten."""
    await sync_to_async(create_first_keys)(family)
    row, told = await notice(application.uri, id_token_alg=family.value)
    assert await delivery.deliver_due() == 1
    headers, _ = application.received[0]
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"
    published = KeySet.import_key_set(json.loads((await key_store().for_publishing()).jwks))
    alg = "EdDSA" if family is Family.ED25519 else family.value
    found = jwt.decode(application.token, published, algorithms=[alg])
    assert found.header["typ"] == "logout+jwt"
    now = clock.unix()
    claims = found.claims
    assert set(claims) == {"iss", "sub", "aud", "iat", "exp", "jti", "sid", "events"}
    assert (claims["iss"], claims["aud"]) == (settings.IRONAUTH_ISSUER, str(row.pk))
    assert (claims["sub"], claims["sid"]) == (str(told.user_id), str(told.session_id))
    assert claims["events"] == {EVENT: {}}
    assert now - 5 < claims["iat"] <= now < claims["exp"] <= now + 120
    assert not await LogoutNotice.objects.aexists()
    assert await delivery.deliver_due() == 0


async def test_pairwise(application: Application, delivery: LogoutDelivery, signing_key: str) -> None:
    """A pairwise client is told its own ``sub`` and ``sid``."""
    row, told = await notice(application.uri, subject_type="pairwise")
    await delivery.deliver_due()
    client = await clients.find(str(row.pk))
    assert client is not None
    payload = json.loads(_payload(application.token))
    assert payload["sub"] == subjects.subject_of(client, told.user_id) != str(told.user_id)
    assert payload["sid"] == subjects.sid_of(client, told.session_id) != str(told.session_id)


async def test_it_is_nothing_else(
    api: httpx.AsyncClient, application: Application, delivery: LogoutDelivery, signing_key: str
) -> None:
    """A logout token opens nothing, and is no ID token."""
    await notice(application.uri)
    await delivery.deliver_due()
    answer = await api.get("/api/v1/access/me", headers=bearer({"access_token": application.token}))
    assert answer.status_code == 401
    assert await id_tokens.read_hint(application.token) is None


@pytest.mark.parametrize(("status", "confirmed"), [(200, True), (204, True), (202, False), (400, False), (500, False)])
async def test_confirmation(
    application: Application, delivery: LogoutDelivery, signing_key: str, status: int, confirmed: bool
) -> None:
    """200 and 204 confirm; anything else is tried again, later and later."""
    application.status = status
    _, told = await notice(application.uri)
    assert await delivery.deliver_due() == 1
    assert await delivery.deliver_due() == 0
    assert await LogoutNotice.objects.aexists() is not confirmed
    if confirmed:
        return
    for attempts, wait_s in ((1, 5), (2, 10), (3, 20)):
        await told.arefresh_from_db()
        assert told.attempts == attempts
        assert 0.7 * wait_s < (told.due_at - clock.now()).total_seconds() <= 1.2 * wait_s
        await LogoutNotice.objects.aupdate(due_at=clock.now())
        assert await delivery.deliver_due() == 1
    application.status = 200
    await LogoutNotice.objects.aupdate(due_at=clock.now())
    await delivery.deliver_due()
    assert not await LogoutNotice.objects.aexists()
    assert (
        len({json.loads(_payload(parse_qs(body)["logout_token"][0]))["jti"] for _, body in application.received}) == 5
    )


async def test_a_redirect_is_not_followed(application: Application, delivery: LogoutDelivery, signing_key: str) -> None:
    """Anybody who answers there sends the token nowhere else."""
    application.status, application.headers = 307, {"Location": application.uri}
    await notice(application.uri)
    await delivery.deliver_due()
    assert len(application.received) == 1
    assert await LogoutNotice.objects.aexists()


async def test_no_proxy(
    application: Application, delivery: LogoutDelivery, signing_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the environment says about proxies is not meant for this."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    await notice(application.uri)
    await delivery.deliver_due()
    assert len(application.received) == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_an_application_in_a_private_network(
    application: Application, delivery: LogoutDelivery, signing_key: str, host: str
) -> None:
    """An address that leads inside is not called, by name neither, unless its network is in the setting."""
    await notice(application.uri.replace("127.0.0.1", host))
    with override_settings(IRONAUTH_LOGOUT_NETWORKS=["10.0.0.0/8", "127.0.0.2"]):
        assert await delivery.deliver_due() == 1
    assert application.received == []
    assert (await LogoutNotice.objects.aget()).attempts == 1
    with (
        override_settings(IRONAUTH_LOGOUT_NETWORKS=["127.0.0.1", "::1"]),
        clock.shifted(LONGEST_RETRY_S),
    ):
        assert await delivery.deliver_due() == 1
    assert len(application.received) == 1
    assert not await LogoutNotice.objects.aexists()


async def test_nobody_there(delivery: LogoutDelivery, signing_key: str) -> None:
    """A client that cannot be reached does not keep the others from being told, and is tried for a day."""
    _, told = await notice("http://127.0.0.1:9/logout")
    assert await delivery.deliver_due() == 1
    for age, there in ((timedelta(days=1, seconds=-5), True), (timedelta(days=1), False)):
        await LogoutNotice.objects.filter(pk=told.pk).aupdate(due_at=clock.now(), created_at=clock.now() - age)
        assert await delivery.deliver_due() == 1
        assert await LogoutNotice.objects.aexists() is there


async def test_a_client_that_is_not_told(application: Application, delivery: LogoutDelivery, signing_key: str) -> None:
    """A client that was disabled, or does not want to hear of it any more, is told nothing."""
    for change in ({"disabled_at": clock.now()}, {"backchannel_logout_uri": ""}):
        row, _ = await notice(application.uri)
        for name, value in change.items():
            setattr(row, name, value)
        await row.asave()
        assert await delivery.deliver_due() == 1
    assert application.received == []
    assert not await LogoutNotice.objects.aexists()


async def test_one_worker_at_a_time(signing_key: str) -> None:
    """What one worker has taken no other one takes, until its lease has ended; then it has lost it."""
    _, told = await notice("http://127.0.0.1:9/logout")
    first = await database().write(logout_notices.claim, told.pk)
    assert first is not None
    assert await database().write(logout_notices.claim, told.pk) is None
    with clock.shifted(LEASE_S - 1):
        assert await database().read(logout_notices.due) == []
    with clock.shifted(LEASE_S + 1):
        second = await database().write(logout_notices.claim, told.pk)
        assert second is not None
        assert second.attempts == 2
        due_at = (await LogoutNotice.objects.aget()).due_at
        assert await database().write(logout_notices.failed, first) is False
        assert (await LogoutNotice.objects.aget()).due_at == due_at


async def test_two_workers(application: Application, delivery: LogoutDelivery, signing_key: str) -> None:
    """Workers that look at the same moment share the notices: none is lost, none delivered twice."""
    row, _ = await notice(application.uri)
    await LogoutNotice.objects.abulk_create(
        LogoutNotice(client=row, user_id=uuid.uuid4(), session_id=uuid.uuid4()) for _ in range(19)
    )
    other = LogoutDelivery()
    taken = await asyncio.gather(delivery.deliver_due(), other.deliver_due())
    await other.stop()
    assert sum(taken) == 20
    sids = {json.loads(_payload(parse_qs(body)["logout_token"][0]))["sid"] for _, body in application.received}
    assert (len(application.received), len(sids)) == (20, 20)


async def test_a_server_delivers_by_itself(application: Application, signing_key: str) -> None:
    """From its start to its stop, without anybody asking."""
    await notice(application.uri)
    await logout_delivery.start()
    for _ in range(200):
        if application.received:
            break
        await asyncio.sleep(0.01)
    await logout_delivery.stop()
    assert len(application.received) == 1
    assert not await LogoutNotice.objects.aexists()
    await notice(application.uri)
    await logout_delivery.stop()
    assert len(application.received) == 1


async def test_a_client_that_trickles(
    application: Application, delivery: LogoutDelivery, signing_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that does not end in time, or is too long, confirms nothing, and holds nobody up."""
    monkeypatch.setattr(logout_delivery, "LIMIT_S", 0.2)
    for length in ("10", str(logout_delivery.LONGEST_ANSWER + 1)):
        application.headers = {"Content-Length": length}
        application.padding = b"x" * (0 if length == "10" else int(length))
        await notice(application.uri)
        assert await delivery.deliver_due() == 1
        assert await LogoutNotice.objects.acount() == 1
        await LogoutNotice.objects.all().adelete()


async def test_one_that_hangs_keeps_nobody_waiting(
    application: Application, delivery: LogoutDelivery, signing_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a client's many notices each thread tries one in vain, the others wait their turn; later one is tried again.

    One that refuses at once takes no other's time, and gets all of its own.
    """
    monkeypatch.setattr(logout_delivery, "LIMIT_S", 1.0)
    monkeypatch.setattr(logout_delivery, "REST_S", 60.0)
    tried: list[uuid.UUID] = []
    send = LogoutDelivery._send

    async def counted(self: LogoutDelivery, client: clients.Client, told: logout_notices.Claimed) -> None:
        tried.append(told.client_id)
        await send(self, client, told)

    monkeypatch.setattr(LogoutDelivery, "_send", counted)
    application.headers, application.padding = {"Content-Length": "10"}, b""
    hanging, _ = await notice(application.uri)
    refusing, _ = await notice("http://127.0.0.1:9/logout", name="Refusing")
    await LogoutNotice.objects.abulk_create(
        LogoutNotice(client=row, user_id=uuid.uuid4(), session_id=uuid.uuid4())
        for row in (hanging, refusing)
        for _ in range(19)
    )
    assert await delivery.deliver_due() == 40
    assert 1 <= tried.count(hanging.pk) <= queue_delivery.THREADS
    assert tried.count(refusing.pk) == 20
    tried.clear()
    for name in delivery._resting:
        delivery._resting[name] -= 60
    await LogoutNotice.objects.filter(client=refusing).adelete()
    await LogoutNotice.objects.aupdate(due_at=clock.now())
    application.padding, application.headers = None, {}
    assert await delivery.deliver_due() == 20
    assert (len(tried), await LogoutNotice.objects.aexists()) == (20, False)


@pytest.mark.parametrize("verified", [False, True])
@pytest.mark.parametrize("origin", list(OAuthClient.Origin))
async def test_whose_networks_a_client_is_called_in(
    application: Application, delivery: LogoutDelivery, signing_key: str, origin: str, verified: bool
) -> None:
    """Those of the house are for clients that staff have made; what they have verified stays a stranger's.

    Its owner says where its name leads, and may say otherwise after anybody has looked at it.
    """
    await notice(application.uri, origin=origin, verified_at=clock.now() if verified else None)
    inside: tuple[list[str], list[str]] = ["127.0.0.0/8"], []
    house, strangers = inside if origin != OAuthClient.Origin.STAFF else inside[::-1]
    with override_settings(IRONAUTH_LOGOUT_NETWORKS=house, IRONAUTH_CLIENT_DOCUMENT_NETWORKS=strangers):
        assert await delivery.deliver_due() == 1
    assert application.received == []
    await LogoutNotice.objects.aupdate(due_at=clock.now())
    with override_settings(IRONAUTH_LOGOUT_NETWORKS=strangers, IRONAUTH_CLIENT_DOCUMENT_NETWORKS=house):
        assert await delivery.deliver_due() == 1
    assert len(application.received) == 1
    assert not await LogoutNotice.objects.aexists()


async def test_strangers_that_hang_keep_nobody_waiting(
    application: Application, delivery: LogoutDelivery, signing_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many clients somebody registers, half of the threads stay with the others; later each is tried again."""
    at_once: list[int] = []
    hanging: set[uuid.UUID] = set()
    gate = asyncio.Event()

    async def send(_: LogoutDelivery, client: clients.Client, told: logout_notices.Claimed) -> None:
        if not client.unverified:
            gate.set()  # one of the house was told while strangers hang
            return
        hanging.add(told.client_id)
        at_once.append(len(hanging))
        try:
            await asyncio.wait_for(gate.wait(), 10)
        finally:
            hanging.discard(told.client_id)

    monkeypatch.setattr(LogoutDelivery, "_send", send)
    for number in range(8):
        await notice(application.uri, name=f"Stranger {number}", origin=OAuthClient.Origin.REGISTERED)
    known, _ = await notice(application.uri, name="Known")
    assert await delivery.deliver_due() == 9
    assert gate.is_set()
    assert max(at_once) <= logout_delivery.MOST_STRANGERS < queue_delivery.THREADS
    assert not await LogoutNotice.objects.filter(client=known).aexists()
    for _ in range(8):
        await LogoutNotice.objects.aupdate(due_at=clock.now())
        await delivery.deliver_due()
    assert not await LogoutNotice.objects.aexists()


async def test_without_a_key(application: Application, delivery: LogoutDelivery, signing_key: str) -> None:
    """A missing key of the client's algorithm loses nothing: it waits."""
    await notice(application.uri, id_token_alg="ES256")
    assert await delivery.deliver_due() == 1
    assert application.received == []
    assert (await LogoutNotice.objects.aget()).attempts == 1


def _payload(token: str) -> bytes:
    """Return what a token says, unverified."""
    return urlsafe_b64decode(token.split(".")[1].encode())
