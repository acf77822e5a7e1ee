"""Importing, importing again, taking back, and exporting."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.audit.recording import Event
from accounts.mfa.totp import codes as totp
from accounts.mfa.totp.models import TotpFactor
from accounts.outbox import tokens as email_tokens
from accounts.outbox.models import EmailToken
from accounts.passwords import hashing
from accounts.privacy import units as deletions
from accounts.staff import units as staff_units
from accounts.transfer import units
from accounts.transfer.models import ImportedUser, UserImport
from accounts.users.models import User
from ironauth.infrastructure.core import clock

pytestmark = pytest.mark.django_db

BCRYPT = bcrypt.hashpw(b"correct horse", bcrypt.gensalt(4)).decode()
SECRET = "MZXW6YTB" * 4

type Import = Callable[..., dict[str, list[str]]]


@pytest.fixture
def run(tmp_path: Path) -> Import:
    """Return what imports rows and returns ids by their outcome."""

    def imported(*rows: dict[str, Any], options: tuple[str, ...] = ()) -> dict[str, list[str]]:
        path, report = tmp_path / "people.jsonl", tmp_path / "report.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        call_command("import_users", str(path), "--from", "jsonl", "--report", str(report), *options)
        found: dict[str, list[str]] = {}
        for line in map(json.loads, report.read_text().splitlines()):
            found.setdefault(line["outcome"], []).append(line["id"])
        return found

    return imported


def row(number: int, **fields: Any) -> dict[str, Any]:
    """Return a person."""
    return {"external_id": str(number), "email": f"Person{number}@example.com", "email_verified": True, **fields}


def test_people_keep_what_they_had(run: Import) -> None:
    """Address, state, date, password and app are as they were; the trail has the import."""
    created = {"created_at": "2020-01-02T03:04:05Z", "name": "Ann", "password_hash": BCRYPT, "totp_secret": SECRET}
    assert run(row(1, **created), row(2, is_active=False, email_verified=False)) == {"created": ["1", "2"]}
    first, second = User.objects.order_by("email_key")
    assert (first.email, first.email_key, first.name) == ("Person1@example.com", "person1@example.com", "Ann")
    assert first.created_at.year == 2020
    assert first.email_verified_at == first.created_at
    assert async_to_sync(hashing.verify_password)("correct horse", first.password).ok
    factor = TotpFactor.objects.get(user=first)
    assert totp.as_text(totp.unseal(factor.master_key_id, bytes(factor.sealed), first.pk)) == SECRET
    assert (second.is_active, second.email_verified_at, second.has_usable_password()) == (False, None, False)
    event = AuditEvent.objects.get(event=Event.USERS_IMPORTED)
    assert event.details["counts"] == ["created: 2", "inactive: 1", "no_password: 1"]


@pytest.mark.parametrize(("verification", "told"), [("required", ["unconfirmed"]), ("optional", [])])
def test_who_is_kept_out_at_first_is_reported(
    run: Import, tmp_path: Path, settings: Settings, verification: str, told: list[str]
) -> None:
    """Addresses that nobody has confirmed, where they have to be, and people who are deactivated."""
    settings.IRONAUTH_EMAIL_VERIFICATION = verification
    known = {"password_hash": BCRYPT}
    run(row(1, **known), row(2, email_verified=False, **known), row(3, is_active=False, **known))
    lines = map(json.loads, (tmp_path / "report.jsonl").read_text().splitlines())
    assert [line["notes"] for line in lines] == [[], told, ["inactive"]]


@pytest.mark.parametrize("value", [True, ["Ann"], {"a": 1}, "a\x00b", "\u202eann", "\ud800", "\u200b", "x" * 151])
def test_what_is_left_out_of_a_profile_is_reported(run: Import, tmp_path: Path, value: Any) -> None:
    """The person comes without that field, and the report has a note of it; others have none."""
    run(row(1, given_name=value, family_name="Lee"), row(2, given_name="Ann", language="xx"), row(3, given_name=None))
    first, second, third = User.objects.order_by("email_key")
    assert (first.given_name, first.family_name) == ("", "Lee")
    assert (second.given_name, third.given_name) == ("Ann", "")
    told = map(json.loads, (tmp_path / "report.jsonl").read_text().splitlines())
    assert [line["id"] for line in told if "profile" in line["notes"]] == ["1"]


def test_a_name_of_which_nothing_is_seen_is_reported(run: Import, tmp_path: Path) -> None:
    """It is none, as on every other way in."""
    run(row(1, name="\u3164\u200b"), row(2, name="Ann\u200d"))
    assert list(User.objects.order_by("email_key").values_list("name", flat=True)) == ["", "Ann\u200d"]
    told = map(json.loads, (tmp_path / "report.jsonl").read_text().splitlines())
    assert [line["id"] for line in told if "name_changed" in line["notes"]] == ["1"]


def test_apps_of_old_systems(run: Import, tmp_path: Path) -> None:
    """A secret of 80 to 640 bits moves; a shorter or longer one stays behind, counted with a note of its own."""
    sizes = {1: 15, 2: 16, 3: 128, 4: 130}  # characters of Base32: 72, 80, 640 and 648 bits in whole bytes
    run(*(row(number, totp_secret="A" * size) for number, size in sizes.items()))
    told = map(json.loads, (tmp_path / "report.jsonl").read_text().splitlines())
    behind = {line["id"] for line in told if "totp_secret_length" in line["notes"]}
    assert behind == {"1", "4"}
    owners = ImportedUser.objects.filter(user__in=TotpFactor.objects.values("user"))
    assert set(owners.values_list("external_id", flat=True)) == {"2", "3"}
    assert "totp_secret_length: 2" in AuditEvent.objects.get(event=Event.USERS_IMPORTED).details["counts"]


def test_dry_run_writes_nothing(run: Import) -> None:
    """It says what would become of everybody, and leaves no row."""
    assert run(row(1), row(2, email="no address"), options=("--dry-run",)) == {"created": ["1"], "email_invalid": ["2"]}
    assert not User.objects.exists()
    assert not UserImport.objects.exists()
    assert not AuditEvent.objects.exists()


def test_a_dry_run_finds_who_is_here(run: Import) -> None:
    """It says of an address that an account has, in whatever case, what the import would say."""
    User.objects.create(email="taken@example.com", email_key="taken@example.com", password="!")
    assert run(row(1, email="TAKEN@example.com"), options=("--dry-run",)) == {"email_taken": ["1"]}


def test_who_is_refused(run: Import) -> None:
    """Each with its reason; nobody who is here already is touched, whatever the case of the address."""
    here = User.objects.create(email="taken@example.com", email_key="taken@example.com", password="!")
    outcome = run(
        row(1),
        row(2, email="PERSON1@EXAMPLE.COM"),
        row(1, email="other@example.com"),
        row(3, email="TAKEN@example.com", password_hash=BCRYPT),
        row(4, email=""),
        {"email": "no-id@example.com"},
        row(5, created_at="yesterday"),
        row(6, name="a\u202eb" + "c" * 300),
    )
    assert outcome == {
        "created": ["1", "6"],
        "email_duplicate": ["2"],
        "id_duplicate": ["1"],
        "email_taken": ["3"],
        "email_missing": ["4"],
        "id_missing": [""],
        "malformed": [""],
    }
    here.refresh_from_db()
    assert (here.email, here.password) == ("taken@example.com", "!")
    assert User.objects.get(email_key="person6@example.com").name.startswith("abccc")


def test_again_leaves_people_alone(run: Import) -> None:
    """A second run creates nobody, also after somebody has changed their address; it adds who is new."""
    run(row(1))
    User.objects.update(email="new@example.com", email_key="new@example.com")
    assert run(row(1), row(2)) == {"already_imported": ["1"], "created": ["2"]}
    assert User.objects.count() == 2


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_the_report_has_the_order_of_the_file(
    run: Import, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    """Who is refused at once stands between the others, also where a batch ends there, or has nobody else."""
    monkeypatch.setattr("accounts.transfer.services.BATCH", 3)
    bad = {"email": ""}
    rows = (row(1, **bad), row(2), row(3), row(4, **bad), row(5, **bad), row(6, **bad), row(7), row(8, **bad))
    run(*rows, options=options)
    lines = [json.loads(line) for line in (tmp_path / "report.jsonl").read_text().splitlines()]
    assert [(line["record"], line["id"]) for line in lines] == [(number, str(number)) for number in range(1, 9)]
    assert [line["id"] for line in lines if line["outcome"] == "created"] == ["2", "3", "7"]


def test_the_report_has_addresses_only_when_asked(run: Import, tmp_path: Path) -> None:
    """As the file has them, of refused people too, in a file of its owner alone; a malformed record has none."""
    report = tmp_path / "report.jsonl"

    def reported() -> list[str | None]:
        return [json.loads(line).get("email") for line in report.read_text().splitlines()]

    rows = (row(1), row(2, email="nowhere"), row(3, created_at="x"))
    run(*rows)
    assert reported() == [None, None, None]
    assert "example.com" not in report.read_text()
    run(*rows, options=("--report-addresses",))
    assert reported() == ["Person1@example.com", "nowhere", ""]
    assert report.stat().st_mode & 0o077 == 0
    with pytest.raises(CommandError, match="--report FILE"):
        call_command("import_users", str(tmp_path / "people.jsonl"), "--from", "jsonl", "--report-addresses")


def test_the_report_has_the_ids_of_here(run: Import, tmp_path: Path) -> None:
    """Each with the id there, where there is an account; an application changes its references with it."""

    def reported() -> dict[str, str | None]:
        lines = map(json.loads, (tmp_path / "report.jsonl").read_text().splitlines())
        return {line["id"]: line["user_id"] for line in lines}

    User.objects.create(email="taken@example.com", email_key="taken@example.com", password="!")
    rows = (row(1), row(2), row(3, email="Taken@example.com"))
    run(*rows, options=("--dry-run",))
    assert reported() == {"1": None, "2": None, "3": None}
    run(*rows)
    here = {key: str(pk) for key, pk in ImportedUser.objects.values_list("external_id", "user_id")}
    assert reported() == {**here, "3": None}
    assert len(here) == 2
    used = User.objects.get(email_key="person2@example.com")
    audit.record(Event.SIGN_IN, actor_id=used.pk, user_id=used.pk)
    for options in ((), ("--dry-run",), ("--update",)):
        run(*rows, options=options)
        assert reported() == {**here, "3": None}


def test_update_spares_who_has_signed_in(run: Import) -> None:
    """With --update the source overwrites who has done nothing here, and nobody else."""
    run(row(1), row(2))
    used = User.objects.get(email_key="person2@example.com")
    audit.record(Event.SIGN_IN, actor_id=used.pk, user_id=used.pk)
    again = (row(1, name="Ann", password_hash=BCRYPT), row(2, name="Bob", password_hash=BCRYPT))
    assert run(*again) == {"already_imported": ["1", "2"]}
    assert run(*again, options=("--update",)) == {"updated": ["1"], "in_use": ["2"]}
    names = User.objects.order_by("email_key").values_list("name", flat=True)
    assert list(names) == ["Ann", ""]


def test_an_app_does_not_come_twice(run: Import) -> None:
    """An update neither adds nor replaces a second factor."""
    run(row(1, totp_secret=SECRET))
    run(row(1, totp_secret="ORSXG5A=" * 3, name="x"), options=("--update",))
    assert TotpFactor.objects.count() == 1


def test_undo_keeps_who_has_signed_in(run: Import, capsys: pytest.CaptureFixture[str]) -> None:
    """The accounts of that import go, but for those in use; others are not touched."""
    run(row(1), row(2))
    first = UserImport.objects.get()
    run(row(3))
    used = User.objects.get(email_key="person2@example.com")
    audit.record(Event.SIGN_IN, actor_id=used.pk, user_id=used.pk)
    call_command("import_users", "--undo", str(first.pk))
    assert "1 accounts deleted; 1 kept" in capsys.readouterr().out
    assert set(User.objects.values_list("email_key", flat=True)) == {"person2@example.com", "person3@example.com"}
    assert AuditEvent.objects.get(event=Event.IMPORT_UNDONE).details["deleted"] == 1
    first.refresh_from_db()
    assert first.undone_at is not None


@pytest.mark.parametrize(("days_ago", "forgotten"), [(29, False), (31, True)])
def test_an_import_older_than_the_trail(
    run: Import, settings: Settings, capsys: pytest.CaptureFixture[str], *, days_ago: int, forgotten: bool
) -> None:
    """The trail may have forgotten who has signed in since: nobody is overwritten or deleted any more."""
    settings.IRONAUTH_AUDIT_KEEP_DAYS = 30
    run(row(1, name="Ann"))
    UserImport.objects.update(started_at=clock.now() - timedelta(days=days_ago))
    first = UserImport.objects.get()
    assert run(row(1, name="Other"), options=("--update",)) == {"in_use" if forgotten else "updated": ["1"]}
    assert User.objects.get().name == ("Ann" if forgotten else "Other")
    call_command("import_users", "--undo", str(first.pk))
    assert f"{1 - forgotten} accounts deleted; {forgotten:d} kept" in capsys.readouterr().out
    assert User.objects.exists() is forgotten


@pytest.mark.parametrize("by_staff", [True, False])
def test_deactivated_by_staff(run: Import, by_staff: bool) -> None:
    """The source brings back who was inactive there; all else is brought up to date."""
    run(row(1, is_active=by_staff))
    user = User.objects.get()
    if by_staff:
        staff = User.objects.create_superuser("staff@example.com", "a staple of horses")
        staff_units.update_user(actor_id=staff.pk, user_id=user.pk, values={"is_active": False})
    assert run(row(1, name="Ann"), options=("--update",)) == {"updated": ["1"]}
    user.refresh_from_db()
    assert (user.name, user.is_active) == ("Ann", not by_staff)


def test_being_deleted(run: Import) -> None:
    """The owner of the mailbox has ended the account: an update does not bring it back, and its end comes."""
    run(row(1, email_verified=False))
    user = User.objects.get()
    found = email_tokens.find(_link(user), email_tokens.Purpose.VERIFY_EMAIL)
    assert found is not None
    deletions.disown(found=found)
    assert run(row(1, name="Ann", is_active=True), options=("--update",)) == {"in_use": ["1"]}
    user.refresh_from_db()
    assert (user.name, user.is_active) == ("", False)
    call_command("import_users", "--undo", str(UserImport.objects.earliest("pk").pk))
    with clock.shifted(8 * 86_400):
        assert deletions.purge_due(10).gone == 1


def _link(user: User) -> str:
    """Return the token of a message to somebody."""
    token_id = email_tokens.issue(purpose=email_tokens.Purpose.VERIFY_EMAIL, user_id=user.pk)
    return email_tokens.text(EmailToken.objects.get(pk=token_id))


def test_batches(run: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit in one transaction goes into the next, and is taken back over as many."""
    monkeypatch.setattr("accounts.transfer.services.BATCH", 2)
    monkeypatch.setattr(units, "BATCH", 2)
    run(*(row(number) for number in range(5)))
    assert ImportedUser.objects.count() == 5
    call_command("import_users", "--undo", str(UserImport.objects.get().pk))
    assert not User.objects.exists()


def test_a_sign_up_in_the_same_moment(run: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who signs up between look and write keeps the account; everybody else of the batch is created."""
    known = units.known

    def late(*arguments: Any) -> units.Known:
        here = known(*arguments)
        User.objects.get_or_create(email="person1@example.com", email_key="person1@example.com", password="!")
        return here

    monkeypatch.setattr(units, "known", late)
    assert run(row(1), row(2)) == {"email_taken": ["1"], "created": ["2"]}


def test_out_and_in_again(run: Import, tmp_path: Path) -> None:
    """What is exported with secrets is imported as it was; without, no hash is in the file."""
    profile = {
        "given_name": "Ann", "family_name": "Lee", "preferred_username": "ann", "zoneinfo": "Europe/Berlin",
        "language": "de",
    }  # fmt: skip
    run(row(1, password_hash=BCRYPT, totp_secret=SECRET, name="Ann", **profile))
    path, bare = tmp_path / "all.jsonl", tmp_path / "bare.jsonl"
    call_command("export_users", str(path), "--secrets")
    call_command("export_users", str(bare))
    assert path.stat().st_mode & 0o777 == 0o600
    line = json.loads(path.read_text())
    assert (line["totp_secret"], line["name"]) == (SECRET, "Ann")
    assert line == line | profile
    assert line["imported"] == {"source": "jsonl", "external_id": "1"}  # who finds the person in the old system again
    assert "password_hash" not in json.loads(bare.read_text())
    User.objects.all().delete()
    assert run(line) == {"created": [line["external_id"]]}
    user = User.objects.get()
    assert {field: getattr(user, field) for field in profile} == profile
    assert async_to_sync(hashing.verify_password)("correct horse", user.password).ok
    with pytest.raises(CommandError, match="does not exist"):
        call_command("export_users", str(path))
    assert AuditEvent.objects.filter(event=Event.USERS_EXPORTED).count() == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--from"),
        (("--from", "django"), "file"),
        (("people.jsonl", "--from", "jsonl", "--database", "sqlite:////x"), "file, or"),
        (("--from", "jsonl", "--database", "sqlite:////x"), "--from django only"),
        (("/does/not/exist", "--from", "jsonl"), "No such file"),
        (("--undo", "00000000-0000-0000-0000-000000000000"), "--list"),
    ],
)
def test_what_the_command_asks(arguments: tuple[str, ...], words: str) -> None:
    """A call that cannot be done ends with the remedy and leaves no import behind."""
    with pytest.raises(CommandError, match=words):
        call_command("import_users", *arguments)
    assert not UserImport.objects.exists()
