"""Django, with allauth's tables where they are: ``dumpdata`` as JSON, or a live database.

allauth's ``account.EmailAddress`` says which addresses are verified; ``mfa.Authenticator`` has the apps' secrets, and
``socialaccount.SocialAccount`` who people are at other providers.
"""

import json
from base64 import b32decode
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.hmac import HMAC
from django.db import connections

from accounts.mfa.recovery import brought
from accounts.transfer.records import (
    MalformedError,
    Note,
    Person,
    ToldIdentity,
    flag,
    moment,
    password_of,
    profile_of,
    text,
)
from accounts.transfer.sources import Options, Source
from accounts.transfer.streams import records_of

ADDRESSES: Final = "account.emailaddress"
AUTHENTICATORS: Final = "mfa.authenticator"
SOCIAL: Final = "socialaccount.socialaccount"
_CODES: Final = 10  # allauth's MFA_RECOVERY_CODE_COUNT
_CODE_DIGITS: Final = 8  # its MFA_RECOVERY_CODE_DIGITS
_ALIAS: Final = "import_users"
_ROWS: Final = 2_000  # rows fetched at once
_EXTRA: Final = {ADDRESSES, AUTHENTICATORS, SOCIAL}


class _Told(NamedTuple):
    """What allauth's tables say of one person."""

    verified: set[str]  # addresses in lower case
    apps: list[Any]
    others: set[Note]
    identities: list[ToldIdentity]
    codes: list[Any]


def _nothing() -> _Told:
    return _Told(set(), [], set(), [], [])


def _codes(data: Mapping[str, Any]) -> tuple[bytes, ...] | None:
    """Return the digests of the recovery codes that are left; None where one has a form that none may have here.

    allauth keeps the codes themselves, or a seed that makes ten of eight digits (``allauth.mfa.recovery_codes``). With
    another ``MFA_RECOVERY_CODE_DIGITS`` these are not the person's codes, and nobody has them.
    """
    left = data.get("migrated_codes")
    if left is None:
        chain, made = HMAC(str(data["seed"]).encode(), SHA1()), []  # noqa: S303 - allauth's
        for number in range(_CODES):
            chain.update(f"{number:3},".encode())
            made.append(
                f"{int.from_bytes(chain.copy().finalize()[: _CODE_DIGITS // 2]) % 10**_CODE_DIGITS:0{_CODE_DIGITS}}"
            )
        left = [code for number, code in enumerate(made) if not int(data.get("used_mask") or 0) >> number & 1]
    digests = [brought.digest_of(str(code)) for code in left]
    return None if None in digests else tuple(digest for digest in digests if digest)


def _note(told: _Told, kind: str, fields: Mapping[str, Any]) -> None:
    """Add one row of allauth's."""
    if kind == ADDRESSES and fields["verified"]:
        told.verified.add(fields["email"].lower())
    elif kind == SOCIAL:
        said = text(_parsed([fields.get("extra_data") or {}])[0], "email")
        told.identities.append(ToldIdentity(str(fields["provider"]), str(fields["uid"]), said if "@" in said else ""))
    elif kind == AUTHENTICATORS and fields["type"] == "totp":
        told.apps.append(fields["data"])
    elif kind == AUTHENTICATORS and fields["type"] == "recovery_codes":
        told.codes.append(fields["data"])
    elif kind == AUTHENTICATORS:
        told.others.add(Note.FACTOR_UNSUPPORTED)


def _records(path: Path, options: Options) -> Iterator[Any]:
    """Yield users, each with what allauth's rows say of them under ``told``. Those rows are read first."""
    if options.database is not None:
        yield from _live(options.database)
        return
    told: defaultdict[str, _Told] = defaultdict(_nothing)
    for record in records_of(path):
        if isinstance(record, dict) and record.get("model") in _EXTRA:
            fields = record["fields"]
            _note(told[str(fields["user"])], record["model"], fields)
    for record in records_of(path):
        if not isinstance(record, dict) or "model" not in record:
            yield None
        elif "password" in record["fields"]:
            pk = str(record.get("pk", ""))
            yield {**record["fields"], "id": pk, "told": told.get(pk, _nothing())}


def _live(database: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield users of a live database, in the order of their keys, and allauth's rows of as many at once."""
    connections.databases[_ALIAS] = {**connections.databases["default"], "OPTIONS": {}, **database}
    try:
        with closing(connections[_ALIAS]) as connection:
            tables = set(connection.introspection.table_names())
            if "auth_user" not in tables:
                raise MalformedError("The database has no table auth_user: export a custom user model by dumpdata.")
            with connection.cursor() as cursor:
                after: Any = None
                while rows := _next(cursor, "auth_user", "id", after):
                    told = _told(cursor, tables, [row["id"] for row in rows])
                    for row in rows:
                        yield {**row, "told": told[row["id"]]}
                    after = rows[-1]["id"]
        del connections[_ALIAS]
    finally:
        del connections.databases[_ALIAS]


def _next(cursor: Any, table: str, key: str, after: Any) -> list[dict[str, Any]]:
    """Return the next rows of ``table``, by its key."""
    where, given = ("", []) if after is None else (f"WHERE {key} > %s", [after])
    cursor.execute(f"SELECT * FROM {table} {where} ORDER BY {key} LIMIT {_ROWS}", given)  # noqa: S608 - our own names
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _told(cursor: Any, tables: set[str], user_ids: list[Any]) -> defaultdict[Any, _Told]:
    """Return what allauth's tables say of these users."""
    told: defaultdict[Any, _Told] = defaultdict(_nothing)
    for kind in _EXTRA:
        table = kind.replace(".", "_")
        if table not in tables:
            continue
        marks = ", ".join(["%s"] * len(user_ids))
        cursor.execute(f"SELECT * FROM {table} WHERE user_id IN ({marks})", user_ids)  # noqa: S608 - our own names
        names = [column[0] for column in cursor.description]
        for row in cursor.fetchall():
            fields = dict(zip(names, row, strict=True))
            _note(told[fields["user_id"]], kind, fields)
    return told


def _parsed(kept: list[Any]) -> list[Any]:
    """Return JSON columns as they are in a dump: a live database may give their text."""
    return [json.loads(data) if isinstance(data, str) else data for data in kept]


def _person(row: dict[str, Any]) -> Person:
    told: _Told = row["told"]
    stored = text(row, "password")
    usable = None if stored.startswith("!") else stored
    password, notes = password_of(usable)
    apps, sets = _parsed(told.apps), _parsed(told.codes)
    codes = _codes(sets[0]) if sets else ()
    secret = str(apps[0]["secret"]) if apps else ""
    email = text(row, "email") or (text(row, "username") if "@" in text(row, "username") else "")
    names = " ".join(filter(None, (text(row, "first_name"), text(row, "last_name"))))
    return Person(
        external_id=text(row, "id"),
        email=email,
        email_verified=email.lower() in told.verified,
        name=names or text(row, "name"),
        profile=profile_of(row, given_name="first_name", family_name="last_name", preferred_username="username"),
        is_active=flag(row, "is_active", default=True),
        created_at=moment(row.get("date_joined")),
        password_hash=password,
        code_digests=codes or (),
        identities=tuple(told.identities),
        totp_secret=b32decode(secret + "=" * (-len(secret) % 8)) if secret else None,
        notes=notes | told.others | ({Note.RECOVERY_CODES_SHORT} if codes is None else set()),
    )


SOURCE = Source(
    "django",
    "dumpdata as JSON, with account.emailaddress, mfa.authenticator and socialaccount.socialaccount; or --database",
    _person,
    records=_records,
)
