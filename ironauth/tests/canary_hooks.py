"""Where the canary listens: the test clients, what this process hashes and mints, its log and its mail.

A plugin of the root conftest. A test that leaves a secret behind fails, whatever it was about.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyotp
import pytest
from django.core.mail import EmailMessage
from django.test import Client, RequestFactory

from accounts.audit import recording as audit
from accounts.mfa.recovery import codes as recovery_codes
from accounts.passwords.formats.argon2 import IronArgon2Hasher
from ironauth import settings_test
from ironauth.infrastructure.core import base64url
from ironauth.infrastructure.telemetry import log_pipe, logs
from ironauth.tests.asgi_conversation import Conversation
from ironauth.tests.canary import Canary

#: What the running test used and wrote; emptied when the next one begins.
watched = Canary()
_patch = pytest.MonkeyPatch()
_seen_mail: set[Path] = set()


def pytest_configure() -> None:
    """Listen from now on."""
    _listen_to_httpx()
    _listen_to_django()
    _listen_to_conversations()
    _listen_to_this_process()


def pytest_unconfigure() -> None:
    """Stop listening."""
    _patch.undo()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Begin anew."""
    watched.forget()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Search the tables as the test leaves them."""
    yield
    fixtures = getattr(item, "fixturenames", ())
    if item.get_closest_marker("django_db") or "db" in fixtures or "transactional_db" in fixtures:
        assert audit.wait_until_written()
        _refuse(watched.in_tables())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Search the log and the mail, those of real servers too, which have ended by now."""
    yield
    logs.flush()
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    _refuse(watched.in_logs(*(folder.glob("serve-*.log") if folder else ())))
    mails = set((settings_test.RUN_FOLDER / "mail").glob("*")) - _seen_mail
    _seen_mail.update(mails)
    _refuse(watched.in_mail(*mails))


def _refuse(leaks: list[str]) -> None:
    __tracebackhide__ = True
    if leaks:
        pytest.fail("a secret of this test was kept:\n" + "\n".join(sorted(leaks)), pytrace=False)


def _listen_to_httpx() -> None:
    """Hear both kinds of client, whether they speak to this process or to a real server."""
    send, send_async = httpx.Client.send, httpx.AsyncClient.send

    def heard(response: httpx.Response, *, stream: bool) -> httpx.Response:
        for one in (*response.history, response):
            request = one.request
            body = request.content if isinstance(request.stream, httpx.ByteStream) else b""
            watched.sent(str(request.url), request.headers, body, request.headers.get("content-type", ""))
            content = b"" if stream else one.content
            watched.got(one.headers, one.cookies, content)
        return response

    def sync(self: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:
        return heard(send(self, request, **options), stream=options.get("stream", False))

    async def asynchronous(self: httpx.AsyncClient, request: httpx.Request, **options: Any) -> httpx.Response:
        return heard(await send_async(self, request, **options), stream=options.get("stream", False))

    _patch.setattr(httpx.Client, "send", sync)
    _patch.setattr(httpx.AsyncClient, "send", asynchronous)


def _listen_to_django() -> None:
    """Hear Django's client, and DRF's, which is one."""
    generic, request = RequestFactory.generic, Client.request

    def sent(self: RequestFactory, method: str, path: Any, data: Any = "", *args: Any, **extra: Any) -> Any:
        body = data if isinstance(data, bytes) else str(data).encode()
        content_type = args[0] if args else extra.get("content_type", "application/octet-stream")
        headers = {name.lower(): value for name, value in (extra.get("headers") or {}).items()}
        headers.setdefault("authorization", extra.get("HTTP_AUTHORIZATION", ""))
        watched.sent(str(path), headers, body, content_type)
        return generic(self, method, path, data, *args, **extra)

    def answered(self: Client, **environ: Any) -> Any:
        response = request(self, **environ)
        cookies = {name: morsel.value for name, morsel in response.cookies.items()}
        headers = {name.lower(): value for name, value in response.items()}
        watched.got(headers, cookies, b"" if response.streaming else response.content)
        return response

    _patch.setattr(RequestFactory, "generic", sent)
    _patch.setattr(Client, "request", answered)


def _listen_to_conversations() -> None:
    """Hear what is spoken to the application message by message."""
    body, run = Conversation.body, Conversation.run

    def said(self: Conversation, *parts: bytes, **options: Any) -> Conversation:
        headers = {name.decode(): value.decode("latin1") for name, value in self.scope["headers"]}
        query = self.scope["query_string"].decode("latin1")
        watched.sent(f"/?{query}", headers, b"".join(parts), headers.get("content-type", ""))
        return body(self, *parts, **options)

    async def answered(self: Conversation, application: Any) -> Conversation:
        await run(self, application)
        starts = [message for message in self.sent if message["type"] == "http.response.start"]
        content = b"".join(message.get("body", b"") for message in self.sent)
        for start in starts:
            headers = {name.decode().lower(): value.decode("latin1") for name, value in start.get("headers", ())}
            watched.got(headers, {}, content)
        return self

    _patch.setattr(Conversation, "body", said)
    _patch.setattr(Conversation, "run", answered)


def _listen_to_this_process() -> None:
    """Hear what is hashed and minted here, no matter who asked for it, and what leaves as log and mail."""
    hasher = IronArgon2Hasher
    hashed, verified, encode = hasher._encode, hasher._verify, base64url.encode
    new_codes, app, message, write = recovery_codes.new_codes, pyotp.OTP.__init__, EmailMessage.message, log_pipe._write

    def hashes(self: Any, password: str | bytes, salt: str | bytes) -> str:
        watched.note("password hashed", password)
        return hashed(self, password, salt)

    def verifies(self: Any, password: str | bytes, encoded: str) -> bool:
        watched.note("password verified", password)
        return verified(self, password, encoded)

    def mints(raw: bytes) -> str:
        text = encode(raw)
        watched.note("token minted", text)
        return text

    def gives() -> list[str]:
        codes = new_codes()
        watched.note("recovery code", codes)
        return codes

    def sets_up(self: pyotp.OTP, s: str, *args: Any, **options: Any) -> None:
        watched.note("TOTP secret", s)
        app(self, s, *args, **options)

    def mails(self: EmailMessage, **options: Any) -> Any:
        made = message(self, **options)
        watched.mailed.append(made)
        return made

    def writes(text: str) -> None:
        watched.logged.append(text)
        write(text)

    for owner, name, hook in (
        (hasher, "_encode", hashes),
        (hasher, "_verify", verifies),
        (base64url, "encode", mints),
        (recovery_codes, "new_codes", gives),
        (pyotp.OTP, "__init__", sets_up),
        (EmailMessage, "message", mails),
        (log_pipe, "_write", writes),
    ):
        _patch.setattr(owner, name, hook)
