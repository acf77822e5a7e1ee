"""The service of breached passwords: what it is asked, what its answers mean, and that none of its failures matters."""

import asyncio
import datetime
import hashlib
import ipaddress
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from django.core.exceptions import ValidationError
from django.db import transaction
from django.test import Client
from django.urls import reverse
from pytest_django import Settings
from structlog.testing import capture_logs

from accounts.conftest import PASSWORD, MakeUser
from accounts.email.tests.test_email_flows import confirm, sign_in_status, token_for
from accounts.errors import InvalidCredentials
from accounts.own_account import services as own_account
from accounts.passwords import breached as breached_passwords
from accounts.passwords import breached_service
from accounts.passwords.breached_service import LONGEST_ANSWER, knows, knows_in_thread
from accounts.passwords.policy import PasswordPolicyValidator
from accounts.passwords.tests.range_server import RangeServer, answer
from accounts.passwords.tests.test_breached_passwords import change, create, sign_up
from accounts.users import services
from accounts.users.models import User
from accounts.users.proofs import Evidence
from ironauth.infrastructure.core.errors import Throttled, ValidationFailed
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.outbound import request as outbound
from ironauth.infrastructure.threads.circuit_breaker import PAUSE_S, Breaker

STOLEN = "plum carpet sings at noon"
HEX = hashlib.sha1(STOLEN.encode(), usedforsecurity=False).hexdigest().upper()
DIGEST = bytes.fromhex(HEX)
SUFFIX = HEX[5:]
OTHER = f"{'0' * 35}:7"
FOUND = answer(f"{OTHER}\r\n{SUFFIX}:1\r\n".encode())


@pytest.fixture(autouse=True)
def breaker(monkeypatch: pytest.MonkeyPatch) -> Breaker:
    """A breaker that has seen nothing."""
    fresh = Breaker("breached_passwords_service")
    monkeypatch.setattr(breached_service, "_breaker", fresh)
    return fresh


@pytest.fixture
def service(settings: Settings) -> Iterator[RangeServer]:
    """A service that this server is told of, which knows `STOLEN`."""
    with RangeServer() as server:
        server.says = FOUND
        settings.IRONAUTH_BREACHED_PASSWORDS_URL = f"http://127.0.0.1:{server.port}/v3/range"
        yield server


async def thread_is_free() -> None:
    """Wait until no question is under way, at most 5 s."""
    for _ in range(500):
        if not breached_service._executor.running:
            return
        await asyncio.sleep(0.01)
    pytest.fail("a thread is still busy")


# ---------------------------------------------------------------- the question
async def test_nothing_but_the_prefix_is_sent(service: RangeServer) -> None:
    """One GET with five characters of the hash; neither the rest of it nor the password is anywhere in it."""
    assert await knows(DIGEST)
    (head,) = service.requests
    assert head.startswith(f"GET /v3/range/{HEX[:5]} HTTP/1.1\r\n")
    assert "\r\nAdd-Padding: true\r\n" in head
    assert "\r\nUser-Agent: ironauth\r\n" in head
    said, host = head.split(f"\r\nHost: 127.0.0.1:{service.port}\r\n")  # the port may have these digits by chance
    assert HEX[5:8].lower() not in f"{said}\r\n{host}".lower()
    assert STOLEN not in head


async def test_off_nobody_is_asked(service: RangeServer, settings: Settings) -> None:
    """Without an address, as it is unless somebody sets one."""
    settings.IRONAUTH_BREACHED_PASSWORDS_URL = ""
    assert not await knows(DIGEST)
    assert not await sync_to_async(knows_in_thread)(DIGEST)
    assert service.requests == []


async def test_it_is_asked_on_threads_of_its_own(service: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not on the event loop's, a hash thread or a database thread."""
    names: list[str] = []
    ask = breached_service._Question.ask

    def noted(question: Any) -> bool:
        names.append(threading.current_thread().name)
        return ask(question)

    monkeypatch.setattr(breached_service._Question, "ask", noted)
    await asyncio.gather(*(knows(DIGEST) for _ in range(8)))
    assert len(service.requests) == 8
    assert set(names) <= {f"breaches-{number}" for number in range(breached_service.THREADS)}
    await breached_service.close()
    assert await knows(DIGEST)


# ---------------------------------------------------------------- the answer
@pytest.mark.parametrize(
    ("body", "known"),
    [
        (f"{SUFFIX}:1", True),
        (f"{SUFFIX.lower()}:1\n{OTHER}\n", True),
        (f"{OTHER}\r\n{SUFFIX}:123456789\r\n{'F' * 35}:0\r\n", True),
        (f"{SUFFIX}:0\r\n{OTHER}", False),
        (f"{SUFFIX}:00", False),
        (OTHER, False),
        (f"{SUFFIX[:-1]}{'1' if SUFFIX[-1] == '0' else '0'}:9", False),
        ("", False),
    ],
)
async def test_answers(service: RangeServer, breaker: Breaker, body: str, known: bool) -> None:
    """Found is a line of this suffix and a count, in either case; a count of 0 is padding."""
    service.says = answer(body.encode())
    assert await knows(DIGEST) == known
    assert await sync_to_async(knows_in_thread)(DIGEST) == known
    assert breaker.failures == 0


async def test_answers_in_pieces(service: RangeServer, breaker: Breaker) -> None:
    """Chunks, and an answer that ends with the connection, are answers."""
    chunk = f"{SUFFIX}:1\r\n".encode()
    service.says = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(chunk), chunk)
    assert await knows(DIGEST)
    service.says = b"HTTP/1.0 200 OK\r\n\r\n" + chunk
    assert await knows(DIGEST)
    assert breaker.failures == 0


def filled(size: int) -> bytes:
    """Return an answer's body of so many bytes that knows `STOLEN`: lines of 38 bytes, the first ones of 39."""
    number, rest = divmod(size, len(f"{SUFFIX}:1\n"))
    return f"{SUFFIX}:10\n".encode() * rest + f"{SUFFIX}:1\n".encode() * (number - rest)


@pytest.mark.parametrize("too_many", [0, 1])
async def test_the_longest_answer(service: RangeServer, breaker: Breaker, too_many: int) -> None:
    """256 KiB are read and believed, one byte more is not, whether it was announced or not."""
    body = filled(LONGEST_ANSWER + too_many)
    assert len(body) == LONGEST_ANSWER + too_many
    for says in (answer(body), b"HTTP/1.0 200 OK\r\n\r\n" + body):
        service.says = says
        assert await knows(DIGEST) == (not too_many)
        assert breaker.is_open == bool(too_many)
        breaker.succeeded()


LONG_LINE = b"HTTP/1.1 200 " + b"x" * 70_000
REDIRECT = answer(b"", status="301 Moved Permanently", Location="/elsewhere")
FAILURES = {
    "a page": answer(b"<html>Please sign in to the network</html>"),
    "a line of another form": answer(f"{SUFFIX}:1\r\n{SUFFIX}".encode()),
    "a suffix too long": answer(f"{SUFFIX}0:1".encode()),
    "a negative count": answer(f"{SUFFIX}:-1".encode()),
    "a count without end": answer(f"{SUFFIX}:{'9' * 16}".encode()),
    "no UTF-8": answer(b"\xff\xfe\x00"),
    "another status": answer(FOUND, status="404 Not Found"),
    "too many requests": answer(b"", status="429 Too Many Requests"),
    "a part": answer(f"{SUFFIX}:1".encode(), status="206 Partial Content"),
    "broken off": answer(f"{SUFFIX}:1\r\n".encode(), Content_Length="100"),
    "broken off in a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n" + OTHER.encode(),
    "no HTTP": f"{HEX[:5]} is not for you\r\n".encode(),
    "an endless line": LONG_LINE,
    "nothing": b"",
}


@pytest.mark.parametrize("says", FAILURES.values(), ids=FAILURES)
async def test_what_is_no_answer_refuses_nobody(service: RangeServer, breaker: Breaker, says: bytes) -> None:
    """It counts as not known, with one line in the log that has no part of the password or of its hash."""
    service.says = says
    with capture_logs() as logs:
        assert not await knows(DIGEST)
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("breached_passwords_service_lost", "warning")
    assert HEX[:5] not in str(line)
    assert breaker.failures == 1


async def test_no_redirect_is_followed(service: RangeServer, breaker: Breaker) -> None:
    """A redirect is a failure, and its target is never asked."""
    service.says = REDIRECT
    assert not await knows(DIGEST)
    assert len(service.requests) == breaker.failures == 1


async def test_a_service_that_is_down_is_left_alone(
    service: RangeServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line for the outage; within a second of a failure nobody asks, then one does, and its end is told."""
    url = settings.IRONAUTH_BREACHED_PASSWORDS_URL
    settings.IRONAUTH_BREACHED_PASSWORDS_URL = "http://127.0.0.1:1/range"
    with capture_logs() as logs:
        assert not await knows(DIGEST)
        settings.IRONAUTH_BREACHED_PASSWORDS_URL = url
        for _ in range(3):
            assert not await knows(DIGEST)
            assert not await sync_to_async(knows_in_thread)(DIGEST)
        assert service.requests == []
        began = time.monotonic()
        monkeypatch.setattr("ironauth.infrastructure.threads.circuit_breaker.time.monotonic", lambda: began + PAUSE_S)
        assert await knows(DIGEST)
    assert [line["event"] for line in logs] == [
        "breached_passwords_service_lost",
        "breached_passwords_service_recovered",
    ]


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_slow_service_is_not_waited_for(
    service: RangeServer, breaker: Breaker, settings: Settings, blocking: bool
) -> None:
    """After the limit its caller goes on; a service that trickles is cut off, so that its thread is free again."""
    settings.IRONAUTH_BREACHED_PASSWORDS_TIMEOUT_S = 0.1
    ended = threading.Event()

    def trickle(write: Callable[[bytes], Any]) -> None:
        try:
            for byte in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 500:
                write(bytes([byte]))
                ended.wait(0.02)
        finally:
            ended.set()

    service.speak = trickle
    began = time.monotonic()
    assert not await (sync_to_async(knows_in_thread)(DIGEST) if blocking else knows(DIGEST))
    assert time.monotonic() - began < 2
    assert breaker.failures == 1
    assert await asyncio.to_thread(ended.wait, 5)
    await thread_is_free()


async def test_within_the_limit_it_is_waited_for(service: RangeServer, settings: Settings) -> None:
    """A service that takes its time, but less than the limit, is heard."""
    settings.IRONAUTH_BREACHED_PASSWORDS_TIMEOUT_S = 10.0
    waited = threading.Event()

    def hesitate(write: Callable[[bytes], Any]) -> None:
        waited.wait(0.15)
        write(FOUND)

    service.speak = hesitate
    assert await knows(DIGEST)


async def test_who_hangs_up_ends_the_question(service: RangeServer, breaker: Breaker) -> None:
    """A cancelled caller cuts it off, and the service has not failed."""
    heard, ended = threading.Event(), threading.Event()

    def speak(write: Callable[[bytes], Any]) -> None:
        heard.set()
        ended.wait(5)

    service.speak = speak
    asking = asyncio.create_task(knows(DIGEST))
    assert await asyncio.to_thread(heard.wait, 5)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await thread_is_free()
    ended.set()
    assert not breaker.is_open


# ---------------------------------------------------------------- TLS
@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that no authority signed, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "range")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path = tmp_path_factory.mktemp("tls") / "range.pem"
    path.write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()) + made.public_bytes(pem))
    return path


@pytest.mark.parametrize(
    ("host", "trusted", "known"), [("127.0.0.1", True, True), ("127.0.0.1", False, False), ("localhost", True, False)]
)
async def test_the_certificate_is_verified(
    certificate: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, host: str, trusted: bool, known: bool
) -> None:
    """Its authority and its name; nothing is asked of a server that cannot prove which one it is."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    ours = ssl.create_default_context(cafile=str(certificate)) if trusted else outbound._tls()
    monkeypatch.setattr(outbound, "_tls", lambda: ours)
    with RangeServer(tls) as server, capture_logs() as logs:
        server.says = FOUND
        settings.IRONAUTH_BREACHED_PASSWORDS_URL = f"https://{host}:{server.port}/range"
        assert await knows(DIGEST) == known
        assert len(server.requests) == known
    assert [line["error"] for line in logs] == ([] if known else ["SSLCertVerificationError"])


# ---------------------------------------------------------------- what follows
@pytest.fixture
def user(make_user: MakeUser) -> User:
    """Somebody who may do everything."""
    return make_user(email="mia@example.com", is_staff=True)


@pytest.mark.parametrize("act", [sign_up, change, create])
@pytest.mark.django_db(transaction=True)
@pytest.mark.storage
async def test_what_it_knows_cannot_be_chosen(
    act: Callable[[User, str], Awaitable[None]], user: User, service: RangeServer
) -> None:
    """Sign-up, change and staff: refused with the reason, and taken when the service does not know it or is gone."""
    with pytest.raises(ValidationFailed) as refused:
        await act(user, STOLEN)
    (error,) = refused.value.errors
    assert error.field in ("password", "new_password")
    assert error.code == "password_breached"
    service.says = answer(b"", status="500 Internal Server Error")
    await act(user, STOLEN)


@pytest.mark.django_db(transaction=True)
async def test_a_reset_keeps_its_token(api: httpx.AsyncClient, user: User, service: RangeServer) -> None:
    """Over HTTP: 400 with the field, and the same link takes another password."""
    token = await token_for(api, "password/reset", user.email)
    answered = await confirm(api, token, STOLEN)
    assert answered.status_code == 400
    assert [(error["field"], error["code"]) for error in answered.json()["errors"]] == [
        ("new_password", "password_breached")
    ]
    service.says = answer(OTHER.encode())
    assert (await confirm(api, token, STOLEN)).status_code == 204


@pytest.mark.usefixtures("signing_key")
@pytest.mark.django_db(transaction=True)
async def test_a_sign_in_asks_nobody(api: httpx.AsyncClient, user: User, service: RangeServer) -> None:
    """Nobody is flagged by a service: whether it was asked about a password before is known nowhere."""
    assert await sign_in_status(api, user.email, PASSWORD) == 200
    assert service.requests == []


@pytest.mark.django_db(transaction=True)
async def test_strangers_cannot_have_it_asked(user: User, service: RangeServer, settings: Settings) -> None:
    """Not after too many sign-ups, nor with a wrong present password, nor about what the policy refuses."""
    settings.IRONAUTH_THROTTLE, settings.IRONAUTH_THROTTLE_SIGNUPS = True, 1
    new = {"email": "new@example.com", "address": "192.0.2.1"}
    refusal: type[Exception]
    for password, refusal, asked in (
        ("too short", ValidationFailed, 0),
        (STOLEN, ValidationFailed, 1),
        (STOLEN, Throttled, 1),
    ):
        with pytest.raises(refusal):
            await own_account.sign_up(email=new["email"], password=password, address=new["address"])
        assert len(service.requests) == asked
    for present, refusal, asked in (("wrong", InvalidCredentials, 1), (PASSWORD, ValidationFailed, 2)):
        with pytest.raises(refusal):
            await services.change_password(user_id=user.pk, shown=Evidence(password=present), new_password=STOLEN)
        assert len(service.requests) == asked


@pytest.mark.django_db(transaction=True)
async def test_hash_and_database_threads_are_free_meanwhile(service: RangeServer) -> None:
    """While a sign-up waits for the service it holds neither, hence no transaction."""
    busy: list[tuple[int, int]] = []

    def speak(write: Callable[[bytes], Any]) -> None:
        pools = {database()._readers, database()._writers}
        busy.append((hash_pool().stats().running, sum(pool.running for pool in pools)))
        write(FOUND)

    service.speak = speak
    with pytest.raises(ValidationFailed):
        await own_account.sign_up(email="new@example.com", password=STOLEN)
    assert busy == [(0, 0)]


@pytest.mark.django_db(transaction=True)
def test_never_within_a_transaction(service: RangeServer) -> None:
    """There only an answer from before it counts, for the password it was about."""
    validate = PasswordPolicyValidator().validate
    with pytest.raises(ValidationError) as refused:
        validate(STOLEN)
    assert [error.code for error in refused.value.error_list] == ["password_breached"]
    with transaction.atomic():
        validate(STOLEN)
    with breached_service.asked_beforehand(DIGEST), transaction.atomic():
        with pytest.raises(ValidationError):
            validate(STOLEN)
        validate(PASSWORD)
    with transaction.atomic():
        validate(STOLEN)
    assert len(service.requests) == 2


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.django_db(transaction=True)
def test_the_admin_asks_before_its_transaction(
    root: User, manager: User, client: Client, service: RangeServer, known: bool
) -> None:
    """A new user's form shows the reason beside the field; without a password nobody is asked."""
    service.says = FOUND if known else answer(OTHER.encode())
    client.force_login(root)
    data = {"email": "new@example.com", "name": "", "password1": STOLEN, "password2": STOLEN}
    page = client.post(reverse("admin:accounts_user_add"), {**data, "usable_password": "true"})
    if known:
        assert breached_passwords.MESSAGE in page.context["adminform"].form.errors["password1"]
    assert User.objects.filter(email="new@example.com").exists() != known
    client.post(reverse("admin:accounts_user_add"), {"email": "x@example.com", "usable_password": "false"})
    assert len(service.requests) == 1
