"""Django, with allauth's and django-otp's tables where they are: ``dumpdata`` as JSON, or a live database.

allauth's ``account.EmailAddress`` says which addresses are verified; ``mfa.Authenticator`` has the apps' secrets, and
``socialaccount.SocialAccount`` who people are at other providers. django-otp, which django-two-factor-auth builds on,
keeps apps as ``otp_totp.TOTPDevice`` and recovery codes as ``otp_static.StaticToken``.
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
    address,
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
OTP_APPS: Final = "otp_totp.totpdevice"
OTP_CODES: Final = "otp_static.statictoken"
OTP_CODE_SETS: Final = "otp_static.staticdevice"
#: Its other devices, and those of packages that build on it: django-two-factor-auth has named its phones in two ways.
_OTP_OTHERS: Final = frozenset(
    {
        "django_otp_webauthn.webauthncredential",
        "otp_email.emaildevice",
        "otp_hotp.hotpdevice",
        "otp_yubikey.remoteyubikeydevice",
        "otp_yubikey.yubikeydevice",
        "phonenumber.phonedevice",
        "two_factor.phonedevice",
        "two_factor_webauthn.webauthndevice",
    }
)
#: What one of django-otp's apps has to be: six digits every 30 s, counted from 1970.
_OTP_FORM: Final = {"step": 30, "t0": 0, "digits": 6}
#: Tables of a live database in which a row is a right that stays behind; a dump has these in the person's own row.
_RIGHTS: Final = frozenset({"auth.user_groups", "auth.user_user_permissions"})
_OF_A_PERSON: Final = frozenset({ADDRESSES, AUTHENTICATORS, SOCIAL, OTP_APPS, *_OTP_OTHERS})


class _Told(NamedTuple):
    """What the tables beside the users' say of one person."""

    verified: set[str]  # addresses in lower case
    apps: list[Any]
    others: set[Note]
    identities: list[ToldIdentity]
    codes: list[Any]
    otp_apps: list[Mapping[str, Any]]
    otp_codes: list[str]


def _nothing() -> _Told:
    return _Told(set(), [], set(), [], [], [], [])


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
    """Add one row of a table beside the users'."""
    if kind == ADDRESSES and fields["verified"]:
        told.verified.add(fields["email"].lower())
    elif kind == SOCIAL:
        email = address(text(_parsed([fields.get("extra_data") or {}])[0], "email"))
        told.identities.append(ToldIdentity(str(fields["provider"]), str(fields["uid"]), email))
    elif kind == AUTHENTICATORS and fields["type"] == "totp":
        told.apps.append(fields["data"])
    elif kind == AUTHENTICATORS and fields["type"] == "recovery_codes":
        told.codes.append(fields["data"])
    elif kind == AUTHENTICATORS or (kind in _OTP_OTHERS and fields.get("confirmed")):
        told.others.add(Note.FACTOR_UNSUPPORTED)
    elif kind == OTP_APPS and fields.get("confirmed"):
        told.otp_apps.append(fields)
    elif kind == OTP_CODES:
        told.otp_codes.append(str(fields["token"]))
    elif kind in _RIGHTS:
        told.others.add(Note.ATTRIBUTES)


def _records(path: Path, options: Options) -> Iterator[Any]:
    """Yield users, each with what the rows of other tables say of them under ``told``. Those rows are read first."""
    if options.database is not None:
        yield from _live(options.database)
        return
    told = _of_dump(path)
    for record in records_of(path):
        if not isinstance(record, dict) or "model" not in record:
            yield None
        elif "password" in record["fields"]:
            if record.get("pk") is None:
                raise MalformedError("The dump has people without their keys: write it without --natural-primary.")
            pk = str(record["pk"])
            yield {**record["fields"], "id": pk, "told": told.get(pk, _nothing())}


def _owner(record: Mapping[str, Any]) -> str:
    """Return the key of the person a row is of; raises ``MalformedError`` where it names them by another field."""
    key = record["fields"]["user"]
    if isinstance(key, list):
        raise MalformedError(f"{record['model']} names people without their keys: write it without --natural-foreign.")
    return str(key)


def _of_dump(path: Path) -> defaultdict[str, _Told]:
    """Return what the rows beside the users' say of each person, by their key."""
    told: defaultdict[str, _Told] = defaultdict(_nothing)
    sets, codes = {}, []  # whose each confirmed set of django-otp's codes is, and its codes, which may come before it
    for record in records_of(path):
        kind = record.get("model") if isinstance(record, dict) else None
        if kind in _OF_A_PERSON:
            _note(told[_owner(record)], kind, record["fields"])
        elif kind == OTP_CODE_SETS and record["fields"].get("confirmed"):
            sets[record["pk"]] = _owner(record)
        elif kind == OTP_CODES:
            codes.append(record["fields"])
    for fields in codes:
        if fields["device"] in sets:
            _note(told[sets[fields["device"]]], OTP_CODES, fields)
    return told


def _live(database: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield users of a live database, in the order of their keys, and the other tables' rows of as many at once."""
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
    """Return what the other tables say of these users."""
    told: defaultdict[Any, _Told] = defaultdict(_nothing)
    marks = ", ".join(["%s"] * len(user_ids))
    asked = {kind: f"SELECT * FROM {_table(kind)} WHERE user_id IN ({marks})" for kind in _OF_A_PERSON | _RIGHTS}  # noqa: S608 - our own names
    asked[OTP_CODES] = (
        f"SELECT code.token, owner.user_id FROM {_table(OTP_CODES)} code JOIN {_table(OTP_CODE_SETS)} owner"  # noqa: S608 - our own names
        f" ON owner.id = code.device_id WHERE owner.confirmed AND owner.user_id IN ({marks})"
    )
    for kind, question in asked.items():
        if _table(kind) not in tables:
            continue
        cursor.execute(question, user_ids)
        names = [column[0] for column in cursor.description]
        for row in cursor.fetchall():
            fields = dict(zip(names, row, strict=True))
            _note(told[fields["user_id"]], kind, fields)
    return told


def _table(kind: str) -> str:
    return kind.replace(".", "_")


def _parsed(kept: list[Any]) -> list[Any]:
    """Return JSON columns as they are in a dump: a live database may give their text."""
    return [json.loads(data) if isinstance(data, str) else data for data in kept]


def _app(told: _Told) -> tuple[bytes | None, set[Note]]:
    """Return the secret of the one app that can move, allauth's before django-otp's, and what is said of the others."""
    of_allauth = [str(app["secret"]) for app in _parsed(told.apps)]
    fitting = [app for app in told.otp_apps if all(app[name] == wanted for name, wanted in _OTP_FORM.items())]
    secrets = [b32decode(secret + "=" * (-len(secret) % 8)) for secret in of_allauth if secret]
    secrets += [bytes.fromhex(app["key"]) for app in fitting]
    count = len(of_allauth) + len(told.otp_apps)
    if not secrets:
        return None, {Note.TOTP_UNSUPPORTED} if count else set()
    return secrets[0], {Note.FACTOR_UNSUPPORTED} if count > 1 else set()


def _all_codes(told: _Told) -> tuple[bytes, ...] | None:
    """Return the digests of allauth's and django-otp's codes; None where one has a form that none may have here."""
    sets = _parsed(told.codes)
    of_allauth, of_otp = _codes(sets[0]) if sets else (), [brought.digest_of(code) for code in told.otp_codes]
    if of_allauth is None or None in of_otp:
        return None
    return tuple(dict.fromkeys([*of_allauth, *(digest for digest in of_otp if digest)]))


def _has_rights(row: Mapping[str, Any]) -> bool:
    """Tell whether somebody's own row gives them a right of Django's."""
    flags = any(flag(row, name) for name in ("is_staff", "is_superuser"))
    return bool(flags or row.get("groups") or row.get("user_permissions"))


def _person(row: dict[str, Any]) -> Person:
    told: _Told = row["told"]
    stored = text(row, "password")
    usable = None if stored.startswith("!") else stored
    password, notes = password_of(usable)
    secret, app_notes = _app(told)
    codes = _all_codes(told)
    more = told.others | app_notes | ({Note.RECOVERY_CODES_SHORT} if codes is None else set())
    email = text(row, "email") or address(text(row, "username"))
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
        totp_secret=secret,
        notes=notes | more | ({Note.ATTRIBUTES} if _has_rights(row) else set()),
    )


SOURCE = Source(
    "django",
    "dumpdata as JSON, with allauth's and django-otp's tables where they are; or --database",
    _person,
    records=_records,
)
