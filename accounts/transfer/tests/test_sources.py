"""Each system's export is read as that system writes it."""

import hashlib
import json
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from asgiref.sync import async_to_sync

from accounts.passwords import hashing
from accounts.passwords.formats.foreign import as_base64
from accounts.transfer.records import MalformedError, Note, Person, Reason, Refused, ToldIdentity
from accounts.transfer.sources import Options, people
from accounts.transfer.sources.registry import SOURCES

PASSWORD = "correct horse"
BCRYPT = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()


def read(source: str, path: Path, **options: Any) -> list[Person | Refused]:
    """Return everybody in a file."""
    return list(people(SOURCES[source], path, Options(**options)))


def only(source: str, path: Path, **options: Any) -> Person:
    """Return the only person in a file."""
    (found,) = read(source, path, **options)
    assert isinstance(found, Person)
    return found


def opens(person: Person) -> bool:
    """Tell whether the password opens the imported hash."""
    return async_to_sync(hashing.verify_password)(PASSWORD, person.password_hash).ok


def written(tmp_path: Path, name: str, content: Any) -> Path:
    """Return a file with this content."""
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def keycloak_user(**credential: Any) -> dict[str, Any]:
    """Return a person as Keycloak exports one."""
    digest = hashlib.pbkdf2_hmac("sha512", PASSWORD.encode(), b"\x01\xfe" * 8, 1_000, 64)
    password = {
        "type": "password",
        "secretData": json.dumps({"value": as_base64(digest), "salt": as_base64(b"\x01\xfe" * 8)}),
        "credentialData": json.dumps({"hashIterations": 1_000, "algorithm": "pbkdf2-sha512"}),
    }
    return {
        "id": "4c973896-5761-41fc-8217-07c5d13a004b",
        "createdTimestamp": 1_505_479_415_590,
        "email": "Ann@example.com",
        "emailVerified": True,
        "enabled": True,
        "firstName": "Ann",
        "lastName": "Lee",
        "credentials": [password, *([credential] if credential else [])],
    }


def app(**settings: Any) -> dict[str, Any]:
    """Return the credential of an authenticator app."""
    told = {"subType": "totp", "digits": 6, "period": 30, "algorithm": "HmacSHA1", **settings}
    return {"type": "otp", "secretData": json.dumps({"value": "N" * 20}), "credentialData": json.dumps(told)}


def test_keycloak(tmp_path: Path) -> None:
    """A realm's file is read past its other settings: name, state, password and app."""
    realm = {"realm": "shop", "roles": {"users": ["no list of people"]}, "users": [keycloak_user(**app())], "x": 1}
    person = only("keycloak", written(tmp_path, "realm.json", realm))
    assert (person.email, person.email_verified, person.name, person.is_active) == (
        "Ann@example.com",
        True,
        "Ann Lee",
        True,
    )
    assert person.created_at is not None
    assert person.created_at.year == 2017
    assert person.totp_secret == b"N" * 20
    assert person.notes == frozenset()
    assert opens(person)


def _of_keycloak(**more: Any) -> dict[str, Any]:
    return {"users": [{**keycloak_user(), **more}]}


@pytest.mark.parametrize(
    ("source", "content", "profile"),
    [
        (
            "keycloak",
            _of_keycloak(username="ann", attributes={"locale": ["de"], "zoneinfo": ["Europe/Berlin"]}),
            {"given_name": "Ann", "family_name": "Lee", "preferred_username": "ann", "language": "de",
             "zoneinfo": "Europe/Berlin"},
        ),
        ("keycloak", _of_keycloak(username="ann@example.com"), {"given_name": "Ann", "family_name": "Lee"}),
        (
            "auth0",
            [{"user_id": "1", "email": "a@example.com", "given_name": "Ann", "family_name": "Lee", "username": "ann"}],
            {"given_name": "Ann", "family_name": "Lee", "preferred_username": "ann"},
        ),
        (
            "supabase",
            [{"id": "1", "email": "a@example.com",
              "raw_user_meta_data": {"preferred_username": "ann", "given_name": "Ann", "full_name": "Ann Lee"}}],
            {"given_name": "Ann", "preferred_username": "ann"},
        ),
        (
            "cognito",
            {"Users": [{"Username": "u", "Attributes": [
                {"Name": "sub", "Value": "1"}, {"Name": "given_name", "Value": "Ann"},
                {"Name": "locale", "Value": "de-DE"}, {"Name": "zoneinfo", "Value": "Europe/Berlin"},
            ]}]},
            {"given_name": "Ann", "language": "de-DE", "zoneinfo": "Europe/Berlin"},
        ),
        (
            "django",
            [{"model": "auth.user", "pk": 1,
              "fields": {"username": "ann", "first_name": "Ann", "last_name": "Lee", "email": "a@example.com",
              "password": ""}}],
            {"given_name": "Ann", "family_name": "Lee", "preferred_username": "ann"},
        ),
        ("jsonl", [{"id": "1", "email": "a@example.com", "zoneinfo": "UTC", "language": "fr"}],
         {"zoneinfo": "UTC", "language": "fr"}),
    ],
)  # fmt: skip
def test_profiles(tmp_path: Path, source: str, content: Any, profile: dict[str, str]) -> None:
    """Names, time zone and language are read from where the system keeps them; an address is no user name."""
    assert only(source, written(tmp_path, "export.json", content)).profile == profile


def test_keycloak_app_of_another_form_stays_behind(tmp_path: Path) -> None:
    """An app of eight digits is no app here; the person is imported and the report has a note."""
    realm = {"users": [keycloak_user(**app(digits=8))]}
    person = only("keycloak", written(tmp_path, "realm.json", realm))
    assert person.totp_secret is None
    assert person.notes == {Note.TOTP_UNSUPPORTED}


@pytest.mark.parametrize(
    ("more", "notes"),
    [
        ({"requiredActions": ["UPDATE_PASSWORD"]}, {Note.REQUIRED_ACTION}),
        ({"requiredActions": [], "attributes": {}, "groups": [], "realmRoles": ["default-roles-shop"]}, set()),
        ({"attributes": {"plan": ["pro"]}}, {Note.ATTRIBUTES}),
        ({"attributes": {"locale": ["de"], "zoneinfo": ["Europe/Berlin"]}}, set()),
        ({"attributes": {"locale": ["de"], "plan": ["pro"]}}, {Note.ATTRIBUTES}),
        ({"groups": ["/staff"]}, {Note.ATTRIBUTES}),
        ({"realmRoles": ["default-roles-shop", "editor"]}, {Note.ATTRIBUTES}),
    ],
)
def test_keycloak_says_what_stays_behind(tmp_path: Path, more: dict[str, Any], notes: set[Note]) -> None:
    """A duty that waits for somebody, and what else the realm knows of them, are counted."""
    person = only("keycloak", written(tmp_path, "realm.json", {"users": [{**keycloak_user(**app()), **more}]}))
    assert person.notes == notes


def test_keycloak_directory(tmp_path: Path) -> None:
    """A directory's files are read in turn, and the realm's own settings are none of them."""
    written(tmp_path, "shop-realm.json", {"realm": "shop"})
    written(tmp_path, "shop-users-0.json", {"realm": "shop", "users": [keycloak_user()]})
    written(tmp_path, "shop-users-1.json", {"realm": "shop", "users": [keycloak_user(), keycloak_user()]})
    assert len(read("keycloak", tmp_path)) == 3


@pytest.mark.parametrize("form", ["lines", "array"])
def test_auth0(tmp_path: Path, form: str) -> None:
    """Both forms of the export, with the hash that support adds."""
    row = {"user_id": "auth0|1", "email": "a@example.com", "email_verified": True, "passwordHash": BCRYPT}
    content = json.dumps(row) + "\n" + json.dumps(row) if form == "lines" else [row, row]
    first, second = read("auth0", written(tmp_path, "users.json", content))
    assert first == second
    assert isinstance(first, Person)
    assert opens(first)


def test_auth0_salted_sha_stays_behind(tmp_path: Path, settings: Any) -> None:
    """A weak hash is taken over with the setting only."""
    digest = hashlib.sha256(b"salt" + PASSWORD.encode()).hexdigest()
    custom = {
        "algorithm": "sha256",
        "hash": {"value": digest, "encoding": "hex"},
        "salt": {"value": "salt", "encoding": "utf8", "position": "prefix"},
    }
    path = written(tmp_path, "u.json", [{"user_id": "1", "email": "a@example.com", "custom_password_hash": custom}])
    person = only("auth0", path)
    assert person.password_hash is None
    assert person.notes == {Note.HASH_NOT_ALLOWED}
    settings.IRONAUTH_SALTED_SHA_HASHES = True
    assert opens(only("auth0", path))


def test_firebase(tmp_path: Path) -> None:
    """The export and the console's parameters, with the published sample; without them nobody is read."""
    config = written(
        tmp_path,
        "config.txt",
        """hash_config {
  algorithm: SCRYPT,
  base64_signer_key: jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==,
  base64_salt_separator: Bw==,
  rounds: 8,
  mem_cost: 14,
}""",
    )
    sample = {
        "localId": "x1",
        "email": "a@example.com",
        "emailVerified": False,
        "passwordHash": "lSrfV15cpx95_sZS2W9c9Kp6i_LVgQNDNC_qzrCnh1SAyZvqmZqAjTdn3aoItz-VHjoZilo78198JAdRuid5lQ==",
        "salt": "42xEC-ixf3L2lw==",
        "createdAt": "1505479415590",
        "providerUserInfo": [{"providerId": "google.com", "rawId": "7"}],
    }
    path = written(tmp_path, "users.json", {"users": [sample]})
    person = only("firebase", path, hash_config=config)
    assert async_to_sync(hashing.verify_password)("user1password", person.password_hash).ok
    assert person.identities == (ToldIdentity("google.com", "7"),)
    (refused,) = read("firebase", path)
    assert refused == Refused("", Reason.MALFORMED)


def test_supabase(tmp_path: Path) -> None:
    """A CSV of auth.users."""
    row = f'7,a@example.com,{BCRYPT},2024-01-02 03:04:05.123+00,2024-01-01 00:00:00+00,"{{""full_name"":""Ann""}}"'
    head = "id,email,encrypted_password,email_confirmed_at,created_at,raw_user_meta_data"
    person = only("supabase", written(tmp_path, "users.csv", f"{head}\n{row}\n"))
    assert (person.external_id, person.email_verified, person.name) == ("7", True, "Ann")
    assert opens(person)


def test_cognito(tmp_path: Path) -> None:
    """list-users, without anybody's password."""
    attributes = [{"Name": "sub", "Value": "s"}, {"Name": "email", "Value": "a@example.com"}]
    user = {"Username": "a", "Attributes": attributes, "Enabled": False, "UserCreateDate": "2024-01-02T03:04:05+00:00"}
    person = only("cognito", written(tmp_path, "users.json", {"Users": [user]}))
    assert (person.external_id, person.is_active, person.password_hash) == ("s", False, None)
    assert person.notes == {Note.NO_PASSWORD}


def test_django_dump_with_allauth(tmp_path: Path) -> None:
    """Users, verified addresses and apps of a dump belong together, in whatever order they come."""
    fields = {"email": "A@example.com", "password": "bcrypt$" + BCRYPT, "is_active": True, "first_name": "Ann"}
    dump = [
        {
            "model": "mfa.authenticator",
            "pk": 1,
            "fields": {"user": 7, "type": "totp", "data": {"secret": "MZXW6YTB" * 4}},
        },
        {"model": "account.emailaddress", "pk": 1, "fields": {"user": 7, "email": "a@example.com", "verified": True}},
        {"model": "auth.group", "pk": 1, "fields": {"name": "staff"}},
        {"model": "auth.user", "pk": 7, "fields": {**fields, "date_joined": "2024-01-02T03:04:05Z"}},
        {"model": "auth.user", "pk": 8, "fields": {**fields, "password": "!unusable", "email": "b@example.com"}},
    ]
    first, second = read("django", written(tmp_path, "dump.json", dump))
    assert isinstance(first, Person)
    assert (first.external_id, first.email_verified, first.totp_secret) == ("7", True, b"fooba" * 4)
    assert opens(first)
    assert isinstance(second, Person)
    assert (second.email_verified, second.password_hash, second.notes) == (False, None, frozenset({Note.NO_PASSWORD}))


@pytest.mark.parametrize("source", sorted(SOURCES))
@pytest.mark.parametrize("content", ["", "{", "[{}", "[1, null, []]", '{"users": {}}', "not json", '{"a": [1', "\x00"])
def test_no_export(tmp_path: Path, source: str, content: str) -> None:
    """A file that is no export is refused whole, or record by record, never with another error."""
    try:
        found = read(source, written(tmp_path, "users.json", content))
    except MalformedError:
        return
    assert all(isinstance(one, Refused) or not one.email for one in found)
