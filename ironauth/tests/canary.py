"""Greps what every test of the suite wrote for every secret it used (security-bar 58).

A secret is noted where it passes: in what the test clients send and get, in what is hashed, in the tokens and codes
made in this process (``canary_hooks``). When a test ends, its log lines, every table and all its mail are searched:
nothing may have kept one, but for the token in the link of the message that brings it.
"""

import base64
import binascii
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from email import message_from_bytes
from email.message import Message
from email.policy import default
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit
from weakref import WeakSet

from django.contrib.sessions.models import Session
from django.db import connection
from django.db.backends.utils import CursorWrapper

from accounts.audit.models import AuditEvent
from ironauth.infrastructure.admin.session_store import SessionStore

#: What is secret in the body of a request or an answer and in the parameters of an address, by name.
SECRET: Final = frozenset(
    {
        "access_token", "challenge_token", "client_assertion", "client_secret", "code_verifier", "current_password",
        "device_code", "id_token", "mfa_token", "new_password", "new_password1", "new_password2", "old_password",
        "password", "password1", "password2", "recovery_codes", "refresh_token", "registration_access_token", "secret",
        "token",
    }
)  # fmt: skip
#: Secret where a client sends it or is sent away with it; in a problem it is the name of the error.
CODE: Final = frozenset({"code", "user_code"})
#: Cookies that prove nothing about anybody; all the others do.
PUBLIC_COOKIES: Final = frozenset({"csrftoken", "__Host-csrftoken", "messages"})
#: What people are known by. Anybody who chooses it as a password, or a part of it, is found everywhere.
PUBLIC: Final = frozenset({"email", "name", "new_email", "username"})
#: Characters. Shorter ones are found in anything, and no password, token or code of ours is: the policy asks for 15.
SHORTEST: Final = 8
#: Passwords of letters alone up to this length are words, of paths too: the policy refuses them.
LONGEST_WORD: Final = 14
#: What authenticates a token is its end, which a log that shortens it must not have kept either.
TOKEN: Final = re.compile(r"[\w.~+/-]{40,}=*")
END: Final = 24  # characters: 144 bits
MAC_BYTES: Final = 32
#: Filled by migrations, and changed by no test.
KEPT_TABLES: Final = frozenset({"auth_permission", "django_content_type", "django_migrations"})
#: The connections to Postgres that know the statement of ``filled_tables`` by its name.
_prepared: Final[WeakSet[object]] = WeakSet()
_SIX_DIGITS: Final = re.compile(r"[0-9]{6}")
_PART: Final = re.compile(rb'name="(\w+)"\r\n\r\n(.*?)\r\n--', re.DOTALL)
_IN_LINK: Final = re.compile(r"[?&]token=([\w-]+)")


class Canary:
    """What one test used that nothing may keep, and what it wrote."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.needles: dict[str, str] = {}
        self.short: dict[str, str] = {}
        self.logged: list[str] = []
        self.mailed: list[Message] = []
        self._public: set[str] = set()

    # ------------------------------------------------------------------ noting
    def note(self, name: str, value: object) -> None:
        """Remember a secret, known as ``name``, with the ways it can be written down."""
        if isinstance(value, list | tuple):
            for one in value:
                self.note(name, one)
        elif not isinstance(value, str):
            return
        elif _SIX_DIGITS.fullmatch(value):
            self.short[value] = name
        elif len(value) >= SHORTEST and len(set(value)) > 4 and not (value.isalpha() and len(value) <= LONGEST_WORD):
            self.needles |= dict.fromkeys(_spellings(value), name)

    def fields(self, found: object, *, codes: bool) -> None:
        """Remember what is secret by name, at any depth; ``codes``: what is called code, too."""
        if isinstance(found, list):
            for one in found:
                self.fields(one, codes=codes)
        if not isinstance(found, Mapping):
            return
        for name, value in found.items():
            if name in SECRET or (codes and name in CODE):
                self.note(name, value)
            elif name in PUBLIC and isinstance(value, str):
                self._public.add(value.casefold())
            elif isinstance(value, Mapping | list):
                self.fields(value, codes=codes)

    def cookies(self, found: Mapping[str, str]) -> None:
        """Remember what cookies hold."""
        for name, value in found.items():
            if name not in PUBLIC_COOKIES:
                self.note(f"cookie {name}", value)

    def sent(self, url: str, headers: Mapping[str, str], body: bytes, content_type: str) -> None:
        """Remember what a client sends."""
        self.fields(dict(parse_qsl(urlsplit(url).query)), codes=True)
        self.fields(_read(body, content_type), codes=True)
        scheme, _, credential = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "basic":
            self.note("basic", _basic(credential))
        self.note("authorization", credential)
        self.cookies(dict(pair.strip().partition("=")[::2] for pair in headers.get("cookie", "").split(";")))

    def got(self, headers: Mapping[str, str], cookies: Mapping[str, str], body: bytes) -> None:
        """Remember what a client is answered."""
        self.cookies(cookies)
        if location := headers.get("location"):
            self.fields(dict(parse_qsl(urlsplit(location).query)), codes=True)
        self.fields(_read(body, headers.get("content-type", "")), codes=False)

    # ------------------------------------------------------------------ searching
    def in_text(self, where: str, text: str) -> list[str]:
        """Return what ``text`` keeps, as sentences that name it without saying it."""
        found = [(name, needle) for needle, name in self.needles.items() if needle in text]
        return [
            f"{where} has a secret: {name}, {len(needle)} characters from {needle[:3]!r}"
            for name, needle in found
            if not any(needle.casefold() in public for public in self._public)
        ]

    def in_words(self, where: str, text: str) -> list[str]:
        """Return which short codes are words of ``text``: in a number, an id or a time they mean nothing."""
        if not self.short:
            return []
        words = set(re.findall(r"(?<![\w.:+-])[0-9]{6}(?![\w.:-])", text))
        return [f"{where} has a secret: {self.short[word]}, six digits" for word in words & self.short.keys()]

    def in_logs(self, *files: Path) -> list[str]:
        """Return what the lines of this process and the files of others keep."""
        text = "".join([*self.logged, *(file.read_text(errors="replace") for file in files)])
        return self.in_text("log", text) + self.in_words("log", text)

    def in_tables(self) -> list[str]:
        """Return what the tables keep, and which codes the trail does; each table is read once."""
        if not (self.needles or self.short):
            return []
        found = []
        for table, text in _tables():
            found += self.in_text(f"table {table}", text)
            if table == AuditEvent._meta.db_table:
                found += self.in_words("audit trail", text)
        return found

    def in_mail(self, *files: Path) -> list[str]:
        """Return what messages keep apart from the one token each is sent for, which goes to one person alone."""
        found: list[str] = []
        readers: dict[str, set[str]] = defaultdict(set)
        for message in [*self.mailed, *(one for file in files for one in _messages(file))]:
            text = "\n".join(_mail_texts(message))
            tokens = set(_IN_LINK.findall(text))
            if len(tokens) > 1:
                found.append(f"mail {message['subject']!r} has {len(tokens)} tokens")
            for token in tokens:
                readers[token].add(str(message["to"]))
                text = text.replace(token, "")
            found += self.in_text(f"mail {message['subject']!r}", text)
        return found + [f"mail: {len(to)} people got one token" for to in readers.values() if len(to) > 1]


def _spellings(value: str) -> Iterator[str]:
    """Yield the text, as JSON spells it too; of a token its end alone, and its MAC in hex."""
    if not TOKEN.fullmatch(value):
        yield value
        yield json.dumps(value)[1:-1]
        return
    yield value.rstrip("=")[-END:]
    try:
        raw = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
    except (binascii.Error, ValueError):
        return  # a JWT or a Django session's: dots, or no base64
    if len(raw) >= MAC_BYTES:
        yield raw[-MAC_BYTES:].hex()


def _read(body: bytes, content_type: str) -> object:
    """Return the fields of a body; None when there are none to be read."""
    try:
        if not body:
            return None
        if "json" in content_type:
            return json.loads(body)
        if content_type.startswith("application/x-www-form-urlencoded"):
            return dict(parse_qsl(body.decode()))
        if content_type.startswith("multipart/form-data"):
            return {name.decode(): value.decode() for name, value in _PART.findall(body)}
    except (ValueError, RecursionError):
        pass  # sent broken on purpose
    return None


def _basic(credential: str) -> str:
    """Return the password of Basic credentials; empty when they are none."""
    try:
        return base64.b64decode(credential).decode().partition(":")[2]
    except ValueError:
        return ""


@cache
def _filled_query() -> str:
    quote = connection.ops.quote_name
    names = connection.introspection.django_table_names(only_existing=False, include_views=False)
    asked = sorted(set(names) - KEPT_TABLES)
    return " UNION ALL ".join(f"SELECT '{name}' WHERE EXISTS (SELECT 1 FROM {quote(name)})" for name in asked)  # noqa: S608 - our own names


def filled_tables(cursor: CursorWrapper) -> list[str]:
    """Return the names of the tables that have rows, without those that migrations fill: one statement asks for all.

    Postgres plans it once for each connection: that takes several times as long as the answer does.
    """
    statement = _filled_query()
    if connection.vendor == "postgresql":
        if connection.connection not in _prepared:
            cursor.execute(f"PREPARE filled_tables AS {statement}")
            _prepared.add(connection.connection)
        statement = "EXECUTE filled_tables"
    cursor.execute(statement)
    return [name for (name,) in cursor.fetchall()]


def _tables() -> Iterator[tuple[str, str]]:
    """Yield each table that has rows, and all texts and bytes in it; sessions of Django's admin opened."""
    with connection.cursor() as cursor:
        for table in filled_tables(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")  # noqa: S608 - our own names
            rows = cursor.fetchall()
            values = [text for row in rows for value in row for text in _texts(value)]
            if table == Session._meta.db_table:
                values += [json.dumps(SessionStore().decode(text)) for text in values if ":" in text]
            yield table, "\n".join(values)


def _texts(value: object) -> Iterator[str]:
    """Yield a column's text; bytes as they are, and in hex."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes | memoryview):
        raw = bytes(value)
        yield raw.decode("latin-1")
        yield raw.hex()


def _messages(file: Path) -> Iterator[Message]:
    """Yield the messages of a file; Django's backend puts a line of dashes behind each."""
    for raw in file.read_bytes().split(b"-" * 79 + b"\n"):
        if raw.strip():
            yield message_from_bytes(raw, policy=default)


def _mail_texts(message: Message) -> Iterable[str]:
    """Yield header lines and parts as a mailbox shows them."""
    yield from (f"{name}: {value}" for name, value in message.items())
    for part in message.walk():
        payload = part.get_payload(decode=True)
        if isinstance(payload, bytes):
            yield payload.decode(part.get_content_charset() or "utf-8", errors="replace")
