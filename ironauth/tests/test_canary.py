"""The canary of the whole suite can fail: it hears every secret, and finds one wherever it was left."""

import base64
import json
import secrets
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import httpx
import pyotp
import pytest
from asgiref.sync import sync_to_async
from django.core import mail
from django.db import connection
from django.test import Client

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.mfa.recovery import codes as recovery_codes
from accounts.passwords.formats.argon2 import IronArgon2Hasher
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.admin.session_store import SessionStore
from ironauth.infrastructure.core import base64url, clock
from ironauth.infrastructure.telemetry import logs
from ironauth.tests import canary_hooks
from ironauth.tests.asgi_conversation import Conversation
from ironauth.tests.canary import Canary, filled_tables
from ironauth.tests.canary_hooks import watched

storage = [pytest.mark.django_db(transaction=True), pytest.mark.storage]
SECRET = "a-secret-" + secrets.token_hex(8)
TOKEN = secrets.token_urlsafe(48)


@pytest.fixture
def own() -> Canary:
    """A canary that knows a password, a token and a code of six digits."""
    canary = Canary()
    canary.fields({"password": SECRET, "token": TOKEN, "code": "402913", "email": "mia@example.com"}, codes=True)
    return canary


def test_a_line_of_the_log_is_searched(own: Canary, tmp_path: Path) -> None:
    """Of this process or of another; a shortened token is found too, a code as a word only."""
    own.logged.append('{"event":"x","duration_ms":0.402913,"id":"4029130","at":"10:402913"}')
    assert own.in_logs() == []
    for line in (f"it was {SECRET}.", f"token=…{TOKEN[-30:]}", '"code":"402913"'):
        own.logged.append(line)
        assert len(own.in_logs()) == 1
        own.logged.remove(line)
        (tmp_path / "serve-1.log").write_text(line)
        assert len(own.in_logs(tmp_path / "serve-1.log")) == 1


def test_what_is_no_secret_is_not_taken_for_one() -> None:
    """Short words, one letter repeated, and what somebody is known by are found everywhere."""
    canary = Canary()
    canary.fields([{"password": "password"}, {"password": "x" * 64}, {"password": "abc1"}], codes=True)
    canary.fields({"email": "Mia.Smith2@example.com", "password": "mia.smith2", "code": "invalid_code"}, codes=False)
    canary.logged.append("password abc1 mia.smith2@example.com invalid_code" + "x" * 64)
    assert canary.in_logs() == []


@pytest.mark.parametrize("text", [SECRET, f"…{TOKEN[-24:]}"])
def test_mail_is_searched(own: Canary, text: str, tmp_path: Path) -> None:
    """Its subject and its parts, encoded or not, in memory or in a file."""
    for field in ("subject", "body"):
        message = mail.EmailMessage("A message", "für dich", "a@example.com", ["b@example.com"])
        setattr(message, field, f"é {text}")
        own.mailed = [message.message()]
        assert len(own.in_mail()) == 1
        (tmp_path / "one").write_bytes(message.message().as_bytes() + b"\n" + b"-" * 79 + b"\n")
        own.mailed = []
        assert len(own.in_mail(tmp_path / "one")) == 1


def test_a_link_has_its_token_and_no_other(own: Canary) -> None:
    """The one token a message is sent for may stand in it, link and text; another may not, nor go to two people."""
    link = f"https://example.com/account/reset?token={TOKEN}"

    def message(body: str, to: str = "mia@example.com") -> EmailMessage:
        made = mail.EmailMessage("Choose a password", body, "a@example.com", [to]).message()
        assert isinstance(made, EmailMessage)
        return made

    own.mailed = [message(f"{link}\n\n{TOKEN}")]
    assert own.in_mail() == []
    own.mailed = [message(TOKEN)]
    assert len(own.in_mail()) == 1
    own.mailed = [message(f"{link} {link[:-4]}aaaa")]
    assert "2 tokens" in own.in_mail()[0]
    own.mailed = [message(link), message(link, "noah@example.com")]
    assert own.in_mail() == ["mail: 2 people got one token"]
    watched.mailed.clear()


class TestTables:
    """Every table of the storage."""

    pytestmark = storage

    async def test_what_a_row_keeps_is_found(self, member: dict[str, Any], request: pytest.FixtureRequest) -> None:
        """A password in a column of a row fails the very test that left it.

        One of its own: SQLite's file keeps what was deleted, where other tests look for those that all share.
        """
        watched.fields({"password": SECRET}, codes=False)
        await User.objects.filter(pk=member["id"]).aupdate(name=f"Mia {SECRET}")

        def ends() -> None:
            ending = canary_hooks.pytest_runtest_call(request.node)
            next(ending)
            with pytest.raises(pytest.fail.Exception, match="table accounts_user has a secret"):
                next(ending)

        await sync_to_async(ends)()
        await User.objects.filter(pk=member["id"]).aupdate(name="Mia")

    async def test_a_line_of_this_process_is_found(self, member: dict[str, Any]) -> None:
        """What is logged after a sign-up reaches the search as it left the process."""
        assert watched.in_logs() == []
        logs.get_logger().info("a_mistake", note=PASSWORD)
        logs.flush()
        assert len(watched.in_logs()) == 1
        watched.logged.clear()

    def test_the_trail_is_searched_for_codes_too(self, transactional_db: None, own: Canary) -> None:
        """As words; parts of a longer number are none."""
        for note, leaks in (("4029135", 0), ("402913", 1), (SECRET, 2)):
            audit.record(Event.STEP_UP, details={"note": note})
            assert len(own.in_tables()) == leaks

    def test_another_connection_is_asked_as_well(self, transactional_db: None, new_email: Callable[[], str]) -> None:
        """Which tables have rows is the same on the first connection, asked again, and on the next one."""
        User.objects.create_user(new_email())
        for _ in range(2):
            for _ in range(2):
                with connection.cursor() as cursor:
                    assert filled_tables(cursor) == [User._meta.db_table]
            connection.close()

    def test_bytes_are_searched(self, transactional_db: None, own: Canary) -> None:
        """A token's text or MAC in a column of bytes, and what Django packs for an admin session."""
        user = User.objects.create_user(email="mia@example.com", password=None)
        for raw in (TOKEN.encode(), base64.urlsafe_b64decode(TOKEN)[-32:]):
            user.email_tokens.create(purpose="verify_email", nonce=b"", digest=raw, expires_at=clock.now())
            assert len(own.in_tables()) == 1
            user.email_tokens.all().delete()
        store = SessionStore()
        store["note"] = [SECRET] * 20  # packed: the text itself is not in the row
        store.create()
        assert len(own.in_tables()) == 1


class TestHearing:
    """Where secrets pass."""

    async def test_what_is_sent_and_answered(self) -> None:
        """Fields at any depth, parameters, credentials, cookies and redirections, of an ASGI application."""
        heard = [f"{name}-{secrets.token_hex(8)}" for name in "abcdefghi"]
        basic = base64.b64encode(f"client:{heard[0]}".encode()).decode()
        headers = {"Set-Cookie": f"a_session={heard[2]}; Path=/", "Location": f"https://example.com/?code={heard[3]}"}
        answer = httpx.Response(302, json={"list": [{"recovery_codes": [heard[1]]}]}, headers=headers)
        transport = httpx.MockTransport(lambda _request: answer)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
            client.cookies.set("b_session", heard[4])
            await client.post("/?access_token=" + heard[5], headers={"Authorization": f"Basic {basic}"})
            await client.post("/", headers={"Authorization": f"Bearer {heard[6]}"}, json=[{"client_secret": heard[7]}])
            await client.post("/", data={"code_verifier": heard[8]})
        assert not [one for one in heard if one not in watched.needles]

    async def test_a_conversation(self) -> None:
        """Message by message, both ways."""

        async def application(scope: Any, receive: Any, send: Any) -> None:
            await send(
                {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]}
            )
            await send({"type": "http.response.body", "body": json.dumps({"id_token": SECRET + "2"}).encode()})

        talk = Conversation("/", "POST", {"content-type": "application/json"})
        await talk.body(json.dumps({"password": SECRET + "1"}).encode()).run(application)
        assert {SECRET + "1", SECRET + "2"} <= watched.needles.keys()

    @pytest.mark.django_db
    def test_forms_of_djangos_client(self, client: Client) -> None:
        """As browsers send them, and as parts."""
        client.post("/admin/login/", {"username": "mia@example.com", "password": SECRET + "3"})
        client.post("/admin/login/", f"password={SECRET}4", "application/x-www-form-urlencoded")
        assert {SECRET + "3", SECRET + "4"} <= watched.needles.keys()
        assert client.cookies["csrftoken"].value not in watched.needles

    def test_what_this_process_makes(self) -> None:
        """What is hashed, tokens, the secrets of apps, and recovery codes."""
        made = {secret := pyotp.random_base32(), *recovery_codes.new_codes(), SECRET}
        pyotp.TOTP(secret)
        IronArgon2Hasher().encode(SECRET, secrets.token_bytes(16).decode("latin-1"))
        assert made <= watched.needles.keys()
        assert base64url.encode(secrets.token_bytes(48))[-24:] in watched.needles
