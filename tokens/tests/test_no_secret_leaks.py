"""Nothing that proves who somebody is, or signs for us, is found in a log, a table or an answer (security-bar 35)."""

import asyncio
import base64
import quopri
import re
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from asgiref.sync import sync_to_async
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import override_settings

from accounts.audit import recording as audit
from accounts.outbox import tokens as email_tokens
from accounts.outbox.delivery import MailDelivery
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.outbox.tokens import ID_BYTES
from conftest import PASSWORD, ServeProcess, bearer
from ironauth.infrastructure.models import ThrottleFailures, ThrottleWindow
from ironauth.infrastructure.telemetry import logs
from tokens.keys.models import SigningKey
from tokens.keys.units import drop, rotate
from tokens.keys.wrapping import unseal
from tokens.sessions import refresh_token
from tokens.tests.browser import LOGOUT, ME, PASSWORD_URL, REFRESH, SAME_ORIGIN, SIGNIN, Pair, by_cookie
from tokens.tests.second_factor import App
from tokens.tests.walks import Post, as_staff, with_a_passkey

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.live]

NEW_PASSWORD = "seven amber kites over Lyon"
RESET = "/api/v1/access/password/reset"
RESET_PASSWORD = "nine copper herons near Ulm"

#: What the trail hears of a walk, at least.
RECORDED = (
    "sign_up",
    "sign_in",
    "refresh_reuse",
    "password_changed",
    "sign_out",
    "key_rotated",
    "key_dropped",
    "verification_requested",
    "email_verified",
    "email_change_requested",
    "email_changed",
    "password_reset_requested",
    "password_reset",
    "mfa_enabled",
    "recovery_code_used",
    "account_deleted",
    "account_restored",
    "data_exported",
    "passkey_added",
    "step_up",
    "recovery_codes_created",
    "user_created",
    "user_changed",
    "role_created",
    "role_given",
    "sessions_ended",
    "admin_sign_in",
    "admin_sign_out",
    "user_deleted",
)
KEY = re.compile(r"[0-9a-f]{32}")


@dataclass
class Walk:
    """What a person and an operator were given on a complete walk, and what the server answered."""

    email: str
    passwords: list[str] = field(default_factory=lambda: [PASSWORD, NEW_PASSWORD, RESET_PASSWORD])
    pairs: list[Pair] = field(default_factory=list)
    cookies: list[str] = field(default_factory=list)
    mail_tokens: list[str] = field(default_factory=list)
    mfa_secrets: list[str] = field(default_factory=list)
    mfa_tokens: list[str] = field(default_factory=list)
    recovery_codes: list[str] = field(default_factory=list)
    factor_tokens: list[str] = field(default_factory=list)
    admin_cookies: list[str] = field(default_factory=list)
    seeds: dict[str, bytes] = field(default_factory=dict)
    answers: list[bytes] = field(default_factory=list)
    exports: list[bytes] = field(default_factory=list)

    def secrets(self) -> set[bytes]:
        """Return every spelling of everything that must not be kept anywhere."""
        tokens = [pair[kind] for pair in self.pairs for kind in ("access_token", "refresh_token")] + self.cookies
        found = {text.encode() for text in [*tokens, *self.passwords]}
        for token in tokens:
            parsed = refresh_token.parse(token)
            # What authenticates the token: a log that shortens it must not have kept this part.
            found |= spellings(parsed.mac) if parsed else {token.rsplit(".", 1)[-1].encode()}
        for seed in self.seeds.values():
            found |= seed_spellings(seed)
        for token in self.mail_tokens:
            found |= spellings_of_token(token)
        return found | self.factor_secrets() | server_secrets()

    def factor_secrets(self) -> set[bytes]:
        """Return the spellings of what second factors are made of; six digits alone are found in any dump."""
        found = {text.encode() for text in (*self.mfa_tokens, *self.recovery_codes, *self.mfa_secrets)}
        found |= {text.encode() for text in (*self.factor_tokens, *self.admin_cookies)}
        found |= {code.replace("-", "").encode() for code in self.recovery_codes}
        for secret in self.mfa_secrets:
            found |= spellings(base64.b32decode(secret))
        return found


def server_secrets() -> set[bytes]:
    """Return the spellings of what the server itself keeps secret: its keys, from which the others are derived."""
    keys = (spellings(key) for key in settings.IRONAUTH_MASTER_KEYS.values())
    return set().union(*keys) | {settings.SECRET_KEY.encode()}


def spellings(raw: bytes) -> set[bytes]:
    """Return the bytes as they are, in hex, in base64 and in base64url."""
    texts = {base64.b64encode(raw), base64.urlsafe_b64encode(raw)}
    return {raw, raw.hex().encode(), raw.hex().upper().encode(), repr(raw).encode()} | {t.rstrip(b"=") for t in texts}


def spellings_of_token(token: str) -> set[bytes]:
    """Return how a message's token, or the part of it that is secret, could be written down."""
    return {token.encode()} | spellings(base64.urlsafe_b64decode(token)[ID_BYTES:])


def seed_spellings(seed: bytes) -> set[bytes]:
    """Return how a private key could be written down, PEM included."""
    pem = Ed25519PrivateKey.from_private_bytes(seed).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return spellings(seed) | {pem.splitlines()[1]}


def stored_seeds() -> dict[str, bytes]:
    """Return the private part of every key not dropped, by kid."""
    keys = SigningKey.objects.exclude(state="dropped")
    return {key.kid: unseal(key.master_key_id, bytes(key.private_encrypted), key.kid) for key in keys}


def every_table() -> bytes:
    """Return all values of all tables as bytes; binary ones as they are and in hex."""
    parts: list[bytes] = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")  # noqa: S608 - names from the database
            for value in (value for row in cursor.fetchall() for value in row):
                raw = bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()
                parts += [raw, raw.hex().encode()] if isinstance(value, bytes | memoryview) else [raw]
    return b"\n".join(parts)


def database_files() -> bytes:
    """Return SQLite's files byte by byte, with what was deleted and not yet written over; nothing for PostgreSQL.

    Read by another process: closing a file drops every lock that this one has on it, SQLite's too.
    """
    if connection.vendor != "sqlite":
        return b""
    name = Path(str(connection.settings_dict["NAME"]))
    return subprocess.run(["cat", *name.parent.glob(f"{name.name}*")], check=True, capture_output=True).stdout


async def mail_files(folder: Path) -> bytes:
    """Deliver what waits into files, and return them, also decoded as a mailbox shows them."""
    mailer = {"BACKEND": "django.core.mail.backends.filebased.EmailBackend", "OPTIONS": {"file_path": str(folder)}}
    with override_settings(MAILERS={"default": mailer}):
        await MailDelivery().deliver_due()
    return await sync_to_async(_read_mail)(folder)


def _read_mail(folder: Path) -> bytes:
    raw = [file.read_bytes() for file in sorted(folder.glob("*"))]
    return b"\n".join([*raw, *(quopri.decodestring(text) for text in raw)])


def waiting_tokens() -> list[str]:
    """Return what the queued messages will say, computed as delivery computes it, the oldest first."""
    rows = OutgoingMail.objects.exclude(token=None).select_related("token").order_by("pk")
    return [email_tokens.text(row.token) for row in rows if row.token is not None]


async def complete_walk(client: httpx.AsyncClient, email: str) -> Walk:
    """Sign up, in (both ways), refresh, rotate the key, reuse, change the password, sign out, drop the key.

    Then what goes by e-mail: a verified address, another address, a forgotten password, an unknown address; then what
    people with second factors do, and staff. Nothing delivers the
    messages: the last ones still wait in the end, to be looked at.
    """
    walk = Walk(email)
    walk.seeds |= await sync_to_async(stored_seeds)()

    async def post(address: str, expected: int, body: dict[str, str], pair: Pair | None = None) -> dict[str, Any]:
        answer = await client.post(address, json=body, headers=bearer(pair) if pair else {})
        assert answer.status_code == expected, answer.text
        walk.answers.append(repr(answer.headers.raw).encode() + answer.content)
        return answer.json() if answer.content else {}

    async def signed_in(password: str = PASSWORD) -> Pair:
        walk.pairs.append(await post(SIGNIN, 200, {"email": email, "password": password}))
        return walk.pairs[-1]

    async def refreshed(pair: Pair) -> Pair:
        walk.pairs.append(await post(REFRESH, 200, {"refresh_token": pair["refresh_token"]}))
        return walk.pairs[-1]

    await post("/api/v1/access/signup", 201, {"email": email, "password": PASSWORD, "name": "Mia"})
    walk.passwords += [wrong := "wrong " + secrets.token_hex(8), typed := secrets.token_hex(12) + "@example.com"]
    await post(SIGNIN, 401, {"email": email, "password": wrong})
    await post(SIGNIN, 401, {"email": typed, "password": wrong})  # people type passwords where addresses belong
    await by_cookie(client, {"email": email, "password": PASSWORD})
    walk.cookies += list(client.cookies.values())
    assert (await client.post(REFRESH, headers=SAME_ORIGIN)).status_code == 204
    walk.cookies += list(client.cookies.values())
    client.cookies.clear()
    first = await signed_in()
    assert (await client.get(ME, headers=bearer(first))).status_code == 200
    retired = (await sync_to_async(SigningKey.objects.get)(state="active")).kid
    await sync_to_async(rotate)(at_once=True)
    walk.seeds |= await sync_to_async(stored_seeds)()
    await refreshed(await refreshed(first))
    await post(REFRESH, 401, {"refresh_token": first["refresh_token"]})  # reuse
    current = await signed_in()
    changed = await post(PASSWORD_URL, 200, {"current_password": PASSWORD, "new_password": NEW_PASSWORD}, current)
    walk.pairs.append(changed)
    await post(LOGOUT, 204, {"refresh_token": changed["refresh_token"]}, changed)
    await post(ME + "?access_token=" + changed["access_token"], 401, {})  # a token where none belongs
    assert (await client.get(ME, headers={"Authorization": f"Bearer {changed['access_token']}x"})).status_code == 401
    await sync_to_async(drop)(retired)
    for _ in range(100):  # a server hears of it within 5 s, and signs with the dropped key till then
        if retired not in (await client.get("/.well-known/jwks.json")).text:
            break
        await asyncio.sleep(0.1)
    walk.seeds |= await sync_to_async(stored_seeds)()
    await walk_by_mail(walk, post, await signed_in(NEW_PASSWORD))
    await walk_with_a_factor(walk, post, client)
    pairs, factors = await with_a_passkey(post, f"keyed-{email}")
    walk.pairs += pairs
    walk.factor_tokens += factors
    pairs, passwords, cookies = await as_staff(post, client, f"staff-{email}")
    walk.pairs += pairs
    walk.passwords += passwords
    walk.admin_cookies += cookies
    return walk


async def walk_with_a_factor(walk: Walk, post: Post, client: httpx.AsyncClient) -> None:
    """Another person sets an app up, signs in with it and with a recovery code, exports, leaves, and comes back."""
    access, person = "/api/v1/access", {"email": f"other-{walk.email}", "password": PASSWORD}
    await post(f"{access}/signup", 201, person)
    pair = await post(SIGNIN, 200, person)
    started = await post(f"{access}/mfa/totp", 200, {}, pair)
    app = App(started["secret"])
    walk.mfa_secrets.append(app.secret)
    confirmed = await post(f"{access}/mfa/totp/confirm", 200, {"code": app.code(-1)}, pair)
    walk.recovery_codes += confirmed["recovery_codes"]
    walk.pairs.append(pair)
    for code, status in ((app.wrong(), 401), (app.code(), 200), (walk.recovery_codes[0], 200)):
        walk.mfa_tokens.append((await post(SIGNIN, 401, person))["mfa_token"])
        answer = await post(f"{access}/signin/mfa", status, {"mfa_token": walk.mfa_tokens[-1], "code": code})
        walk.pairs += [answer] if status == 200 else []
    exported = await client.get(f"{access}/me/export", headers=bearer(walk.pairs[-1]))
    walk.exports.append(exported.content)
    body = {"password": PASSWORD}
    left = await client.request("DELETE", ME, json=body, headers=bearer(walk.pairs[-1]))
    assert left.status_code == 204
    tokens = [token for token in await sync_to_async(waiting_tokens)() if token not in walk.mail_tokens]
    walk.mail_tokens += tokens
    await post(f"{access}/me/restore", 204, {"token": tokens[-1]})


async def walk_by_mail(walk: Walk, post: Post, pair: Pair) -> None:
    """Do what messages' tokens allow, and leave some waiting."""

    async def newest() -> str:
        walk.mail_tokens += await sync_to_async(waiting_tokens)()
        return walk.mail_tokens[-1]

    access = "/api/v1/access"
    await post(f"{access}/email/verify/resend", 202, {"email": walk.email})
    walk.passwords.append(wrong := "wrong " + secrets.token_hex(8))
    await post(f"{access}/email/verify", 400, {"token": (mine := await newest()), "password": wrong})
    await post(f"{access}/email/verify", 204, {"token": mine}, pair)
    moved = {"new_email": f"moved-{walk.email}"}
    await post(f"{access}/email", 401, {**moved, "password": wrong}, pair)
    await post(f"{access}/email", 202, {**moved, "password": NEW_PASSWORD}, pair)
    await post(f"{access}/email/verify", 400, {"token": (moving := await newest())})
    await post(f"{access}/email/verify", 204, {"token": moving}, pair)
    await post(f"{access}/email/verify", 400, {"token": moving})
    await post(RESET, 202, {"email": moved["new_email"]})
    forgotten = {"token": await newest(), "new_password": RESET_PASSWORD}
    await post(f"{RESET}/confirm", 400, {**forgotten, "new_password": (weak := secrets.token_hex(6))})
    walk.passwords.append(weak)
    await post(f"{RESET}/confirm", 204, forgotten)
    await post(RESET, 202, {"email": f"nobody-{walk.email}"})
    await post(RESET, 202, {"email": moved["new_email"]})
    await newest()


def assert_mailed_alone(walk: Walk, mailed: bytes) -> None:
    """A message holds the one token it was sent for, which nobody has used yet; of everything else it holds nothing."""
    assert (waiting := walk.mail_tokens[4]).encode() in mailed
    assert b"Your account is being deleted" not in mailed  # it went with its token
    assert not [secret for secret in walk.secrets() - spellings_of_token(waiting) if secret in mailed]


def assert_kept_nowhere(walk: Walk, logged: bytes) -> None:
    """Scan logs, tables, trail and export for every secret of the walk, and the answers for private keys."""
    assert audit.wait_until_written()
    tables = every_table()
    assert len(walk.seeds) >= 3
    assert len(walk.pairs) == 14
    assert len(set(walk.mail_tokens)) == 6
    assert (len(walk.mfa_secrets), len(walk.recovery_codes), len(set(walk.mfa_tokens))) == (1, 10, 3)
    assert (len(walk.factor_tokens), len(walk.admin_cookies)) == (25, 1)
    assert all(kid.encode() in tables for kid in walk.seeds)  # the scan does see what is there
    assert walk.email.encode() in tables
    assert OutgoingMail.objects.filter(kind="reset_password").count() == 2  # to somebody, and to nobody
    assert EmailToken.objects.count() == 2
    assert ThrottleFailures.objects.exists()
    assert ThrottleWindow.objects.exists() or settings.REDIS_URL
    exported = StringIO()
    assert audit.wait_until_written()
    call_command("audit_export", stdout=exported, until="2999-01-01T00:00:00Z")
    trail = exported.getvalue().encode()
    for event in RECORDED:
        assert f'"event":"{event}"'.encode() in trail, event
    assert not [secret for secret in walk.secrets() if secret in trail]
    assert walk.email.encode() not in trail  # ids, never addresses
    counted = [*ThrottleFailures.objects.values_list("pk"), *ThrottleWindow.objects.values_list("pk")]
    assert not [key for (key,) in counted if not KEY.fullmatch(key)]  # MACs, never addresses
    assert logged
    assert not [secret for secret in walk.secrets() if secret in logged]
    assert not [secret for secret in walk.secrets() if secret in tables]
    files = database_files()
    assert walk.email.encode() in files or connection.vendor != "sqlite"
    assert not [secret for secret in walk.secrets() if secret in files]
    (handed_out,) = walk.exports
    assert f"other-{walk.email}".encode() in handed_out
    assert not [secret for secret in walk.secrets() if secret in handed_out]
    answers = b"\n".join(walk.answers)
    assert not [secret for seed in walk.seeds.values() for secret in seed_spellings(seed) if secret in answers]


@pytest.fixture
def events() -> Iterator[list[MutableMapping[str, Any]]]:
    """Everything handed to the logger, before anything is redacted or dropped."""
    seen: list[MutableMapping[str, Any]] = []

    def see(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        seen.append(dict(event))
        return event

    processors = structlog.get_config()["processors"]  # changed in place: loggers keep this very list
    processors.insert(0, see)
    yield seen
    processors.remove(see)


async def test_nothing_is_kept_in_this_process(
    api: httpx.AsyncClient,
    signing_key: str,
    new_email: Callable[[], str],
    events: list[MutableMapping[str, Any]],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """Neither what is handed to the logger, nor the lines it writes, nor any table has a token, password or seed."""
    with override_settings(IRONAUTH_ACCESS_LOG=True, IRONAUTH_THROTTLE=True):
        walk = await complete_walk(api, new_email())
    logs.flush()
    written = capsys.readouterr()
    assert '"event":"request"' in written.err
    assert events
    logged = "\n".join([written.err, written.out, *map(repr, events)]).encode()
    await sync_to_async(assert_kept_nowhere)(walk, logged)
    assert_mailed_alone(walk, await mail_files(tmp_path / "mail"))


def written_by_server(folder: Path) -> bytes:
    """Return the server's output, once it has the lines of the walk's last request; it writes every 50 ms."""
    (file,) = folder.glob("serve-*.log")
    deadline = time.monotonic() + 5
    while (logged := file.read_bytes()).count(f'"path":"{ME}/restore"'.encode()) < 1:
        assert time.monotonic() < deadline, logged
        time.sleep(0.02)
    return logged


async def test_a_talkative_server_keeps_nothing(
    serve_process: ServeProcess, signing_key: str, new_email: Callable[[], str], tmp_path: Path
) -> None:
    """A real server that logs all it can, access lines included, writes no token, password or seed anywhere."""
    base = await sync_to_async(serve_process)(
        IRONAUTH_ACCESS_LOG="1", IRONAUTH_LOG_LEVEL="DEBUG", IRONAUTH_THROTTLE="1", IRONAUTH_MAIL_DELIVERY="worker"
    )
    async with httpx.AsyncClient(base_url=base, timeout=30) as client:
        walk = await complete_walk(client, new_email())
        logged = await sync_to_async(written_by_server)(tmp_path)
    await sync_to_async(assert_kept_nowhere)(walk, logged)
    assert_mailed_alone(walk, await mail_files(tmp_path / "mail"))
