"""Recovery codes of other systems: read as they keep them, brought where an app comes along, and handed on."""

import hashlib
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from accounts.mfa.recovery import brought
from accounts.mfa.recovery.models import RecoveryCode
from accounts.transfer.records import Note
from accounts.transfer.tests.test_sources import app, keycloak_user, only, written
from accounts.users.models import User

SECRET = "MZXW6YTB" * 4
#: What allauth 65.22.1 made, and wrote by dumpdata after the third code was used.
SEED = "267ee62c83ffbbaee1e347e518fe596ed6602b72a2ae534c89c255a429309902978d789132716c53"
OF_SEED = ("55682701", "05390309", "60742670", "33693403", "07592601", "87274295", "54178803", "13646466", "52638611")
TAKEN = "07685787"
PLAIN = ("ABCD1234WXYZ", "QRST5678NPQR")


def digest(code: str) -> bytes:
    """Return a code as Keycloak keeps it."""
    return hashlib.sha512(code.encode()).digest()


def keycloak_codes(**told: Any) -> dict[str, Any]:
    """Return the credential of recovery codes as Keycloak exports it."""
    codes = [{"number": n, "encodedHashedValue": b64encode(digest(c)).decode()} for n, c in enumerate(PLAIN, 1)]
    data = {"hashIterations": 1, "algorithm": "RS512", "remaining": 2, "total": 12, **told}
    secret = {"codes": told.pop("codes", codes)}
    return {
        "type": "recovery-authn-codes", "secretData": json.dumps(secret), "credentialData": json.dumps(data),
    }  # fmt: skip


@pytest.mark.parametrize("told", [{}, {"algorithm": "SHA-512", "hashIterations": None}])
def test_keycloak(tmp_path: Path, told: dict[str, Any]) -> None:
    """The digests of its older and newer versions are read, beside password and app."""
    user = keycloak_user(**app())
    user["credentials"].append(keycloak_codes(**told))
    person = only("keycloak", written(tmp_path, "realm.json", {"users": [user]}))
    assert person.code_digests == tuple(map(digest, PLAIN))
    assert person.notes == frozenset()


@pytest.mark.parametrize(
    "told", [{"algorithm": "SHA-256"}, {"hashIterations": 2}, {"codes": [{"encodedHashedValue": "\u00e9"}]}]
)
def test_keycloak_of_another_form(tmp_path: Path, told: dict[str, Any]) -> None:
    """What is no plain SHA-512 stays behind with a note; the person comes."""
    person = only("keycloak", written(tmp_path, "realm.json", {"users": [keycloak_user(**keycloak_codes(**told))]}))
    assert not person.code_digests
    assert person.notes == {Note.RECOVERY_CODES}


def allauth(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a dump of somebody with these recovery codes."""
    rows = (("recovery_codes", data), ("totp", {"secret": SECRET}))
    return [
        *({"model": "mfa.authenticator", "fields": {"user": 1, "type": kind, "data": one}} for kind, one in rows),
        {"model": "auth.user", "pk": 1, "fields": {"email": "a@example.com", "password": "!"}},
    ]


@pytest.mark.parametrize(
    ("data", "codes"),
    [
        ({"seed": SEED, "used_mask": 4}, OF_SEED),
        ({"seed": SEED, "used_mask": 0b1111111111}, ()),
        ({"seed": "unused", "used_mask": 0, "migrated_codes": ["abcd-efgh", "12345678"]}, ("ABCDEFGH", "12345678")),
    ],
)
def test_allauth(tmp_path: Path, data: dict[str, Any], codes: tuple[str, ...]) -> None:
    """The codes of its seed are those that it shows, without the used ones; codes that it was given are read too."""
    person = only("django", written(tmp_path, "dump.json", allauth(data)))
    assert person.code_digests == tuple(map(digest, codes))
    assert digest(TAKEN) not in person.code_digests


@pytest.mark.parametrize("code", ["1234567", "x" * 65, "code\u00e9code"])
def test_allauth_codes_that_are_none_here(tmp_path: Path, code: str) -> None:
    """Too short, too long, or with a letter that nobody types: all of them stay behind, with a note."""
    dump = allauth({"seed": SEED, "used_mask": 0, "migrated_codes": ["12345678", code]})
    person = only("django", written(tmp_path, "dump.json", dump))
    assert not person.code_digests
    assert person.notes == {Note.NO_PASSWORD, Note.RECOVERY_CODES_SHORT}


def imported(tmp_path: Path, *codes: Any, **more: Any) -> list[str]:
    """Import somebody with these codes; return what is said of them."""
    person = {"external_id": "1", "email": "a@example.com", "email_verified": True, "totp_secret": SECRET}
    path, report = tmp_path / "people.jsonl", tmp_path / "report.jsonl"
    path.write_text(json.dumps(person | {"recovery_codes": codes} | more))
    call_command("import_users", str(path), "--from", "jsonl", "--report", str(report))
    line = json.loads(report.read_text())
    return [line["outcome"], *(note for note in line["notes"] if note.startswith("recovery"))]


def sha512(code: str) -> dict[str, str]:
    """Return a code as a line has it."""
    return {"sha512": b64encode(digest(code)).decode()}


OWN = {"selector": "0a1b", "hash": "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzYWx0$" + "A" * 43}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("codes", "told"),
    [
        ([sha512(f"code{number:08}") for number in range(brought.MOST)], "recovery_codes_brought"),
        ([sha512(f"code{number:08}") for number in range(brought.MOST + 1)], "recovery_codes"),
        ([{"sha512": b64encode(b"x" * 63).decode()}], "recovery_codes"),
        ([OWN], "recovery_codes_brought"),
        ([OWN, OWN], "recovery_codes"),
        ([OWN | {"selector": "~000"}], "recovery_codes"),
        ([OWN | {"selector": "0a1"}], "recovery_codes"),
        ([OWN | {"hash": "plain"}], "recovery_codes"),
        ([OWN | {"hash": "$argon2id$v=19$m=99999999,t=2,p=1$c29tZXNhbHRzYWx0$" + "A" * 43}], "recovery_codes"),
    ],
)
def test_what_is_brought(tmp_path: Path, codes: list[dict[str, str]], told: str) -> None:
    """32 digests and no more, of SHA-512; own hashes whose beginning is one and whose cost is bounded; else a note."""
    assert imported(tmp_path, *codes) == ["created", told]
    assert RecoveryCode.objects.count() == (len(codes) if told == "recovery_codes_brought" else 0)


@pytest.mark.django_db
def test_codes_need_an_app(tmp_path: Path) -> None:
    """Without one they would stand in for nothing, and let somebody in by themselves."""
    assert imported(tmp_path, sha512(PLAIN[0]), totp_secret="") == ["created", "recovery_codes_alone"]
    assert imported(tmp_path, sha512(PLAIN[0]), external_id="2", email="b@example.com", totp_secret="A" * 15) == [
        "created", "recovery_codes_alone",
    ]  # fmt: skip
    assert not RecoveryCode.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("codes", [[7], ["plain"], [{"sha512": "\u00e9"}], [{"sha512": 7}], [None], {"a": 1}])
def test_malformed_codes(tmp_path: Path, codes: Any) -> None:
    """A record whose codes are no list of objects with Base64 is refused, or comes without them."""
    outcome = imported(tmp_path, recovery_codes=codes)
    assert outcome in (["malformed"], ["created", "recovery_codes"])
    assert not RecoveryCode.objects.exists()


@pytest.mark.django_db
def test_out_and_in_again(tmp_path: Path) -> None:
    """What is exported with secrets has both kinds, and brings them into another installation; without, it has none."""
    assert imported(tmp_path, OWN, sha512(PLAIN[0]))[0] == "created"
    path, bare = tmp_path / "all.jsonl", tmp_path / "bare.jsonl"
    call_command("export_users", str(path), "--secrets")
    call_command("export_users", str(bare))
    line = json.loads(path.read_text())
    assert sorted(line["recovery_codes"], key=len) == [sha512(PLAIN[0]), OWN]
    assert "recovery_codes" not in json.loads(bare.read_text())
    User.objects.all().delete()
    call_command("import_users", str(path), "--from", "jsonl")
    assert RecoveryCode.objects.count() == 2
    (kept,) = RecoveryCode.objects.filter(selector__startswith="~")
    assert brought.is_right(kept.user_id, kept.encoded, digest(PLAIN[0]))
