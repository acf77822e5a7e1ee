"""The list of breached passwords: how it is made, what it knows, and what follows at sign-up, change and sign-in."""

import asyncio
import hashlib
import io
import os
import random
import sys
from collections.abc import Awaitable, Callable
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import Settings
from structlog.testing import capture_logs

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.conftest import PASSWORD, MakeUser
from accounts.email import services as email_services
from accounts.email.tests.test_email_flows import confirm, delivered, sign_in_status, token_for
from accounts.outbox.models import OutgoingMail
from accounts.own_account import services as own_account
from accounts.passwords import breached as breached_passwords
from accounts.passwords import breached_file
from accounts.passwords.breached import MAGIC, RECORD_BYTES, is_breached, prefix_of
from accounts.passwords.breached_file import LONGEST_LINE, build, records
from accounts.staff import services as staff_services
from accounts.users import queries as user_queries
from accounts.users import services, units
from accounts.users.models import User
from accounts.users.proofs import Evidence
from ironauth.infrastructure.core.errors import ValidationFailed

STOLEN = "plum carpet sings at noon"
DECOMPOSED = "cafe\u0301 violet otter rides"


def sha1(text: str) -> str:
    """Return what a published list says of a password."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest().upper()


@pytest.fixture
def install(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """A way to install a list of these lines, of which the trail does not hear; returns what the command says.

    It counts at once.
    """
    monkeypatch.setattr(breached_passwords, "LOOK_S", 0.0)
    settings.IRONAUTH_BREACHED_PASSWORDS = str(tmp_path / "lists" / "breached")

    def make(lines: str, *options: str) -> str:
        (tmp_path / "source").write_text(lines, encoding="utf-8")
        out = StringIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(audit, "record", lambda *_, **__: None)  # most tests have no database
            call_command("breached_passwords", "install", str(tmp_path / "source"), *options, stdout=out)
        return out.getvalue()

    return make


Install = Callable[..., str]


# ---------------------------------------------------------------- the file
@pytest.mark.parametrize(
    ("lines", "known"),
    [
        (f"{sha1(STOLEN)}:3\r\n{sha1('other')}:1\r\n", True),
        (f"{sha1(STOLEN).lower()}\n", True),
        (f"first\n{STOLEN}\nlast", True),
        (f"first\r\n{STOLEN}", True),
        (f"{STOLEN} \n", False),
        (f"{sha1(STOLEN)}:three\n", False),
        (f"{sha1(STOLEN)[:39]}\n", False),
        ("x" * LONGEST_LINE + f"\n{STOLEN}\n", True),
        ("x" * (LONGEST_LINE + 1) + f"{STOLEN}\nlast\n", False),
        ("x" * (2 * LONGEST_LINE + 4) + f"\n{STOLEN}\n", True),
    ],
)
def test_hashes_and_words_are_taken(install: Install, lines: str, known: bool) -> None:
    """Hashes with or without counts, and words as they are, with either end of line; nothing is guessed from others."""
    install(lines)
    assert is_breached(STOLEN) == known


def test_rare_ones_may_be_left_out(install: Install) -> None:
    """A hash with the count asked for is in the list, one with less is not; words have no count."""
    lines = f"{sha1('ten')}:10\n{sha1('nine')}:9\nword\n"
    assert install(lines, "--seen-at-least", "10").startswith("2 passwords in ")
    assert [is_breached(text) for text in ("ten", "nine", "word")] == [True, False, True]


def test_a_password_is_looked_up_as_it_is_hashed(install: Install) -> None:
    """Both spellings of an accented letter are one password, in the list and at the look-up; Latin-1 lines count."""
    install(f"{DECOMPOSED}\n")
    assert is_breached(DECOMPOSED)
    assert is_breached("caf\u00e9 violet otter rides")
    assert list(records(io.BytesIO(b"caf\xe9\n"))) == [prefix_of("caf\u00e9")]
    assert not is_breached("\ud800")  # a lone surrogate, which JSON can carry


@pytest.mark.parametrize("number", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("in_order", [True, False])
def test_every_record_is_found_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, in_order: bool
) -> None:
    """In pieces of three and with repetitions: the first, the last and each between; no neighbour of any."""
    monkeypatch.setattr(breached_file, "PIECE", 3)
    monkeypatch.setattr(breached_file, "READ_AHEAD", 2)
    chosen = random.Random(number)
    values = chosen.sample(range(2, 2**64 - 1, 3), number)
    wanted = [value.to_bytes(RECORD_BYTES) for value in values] * 2
    wanted = sorted(wanted) if in_order else chosen.sample(wanted, len(wanted))
    target = tmp_path / "list"
    assert build(wanted, target) == number
    assert target.stat().st_size == len(MAGIC) + number * RECORD_BYTES
    found = breached_passwords.BreachedList(target)
    assert all(found.has(record) for record in wanted)
    assert not any(found.has((value + step).to_bytes(RECORD_BYTES)) for value in values for step in (-1, 1))
    assert [path.name for path in tmp_path.iterdir()] == ["list"]


def test_what_comes_in_order_is_one_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A list sorted by hash, however long, needs no merging; one in disorder as many runs as it has pieces."""
    monkeypatch.setattr(breached_file, "PIECE", 2)
    rows = [bytes([n] * RECORD_BYTES) for n in (1, 2, 2, 3, 4, 5)]
    for order, runs in ((rows, 1), (rows[::-1], 3)):
        with (tmp_path / "pieces").open("w+b") as pieces:
            assert len(breached_file._sorted_runs(iter(order), pieces)) == runs


def test_a_new_list_counts_within_a_second(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then the file is not looked at; another path is, at once."""
    monkeypatch.setattr(breached_passwords, "LOOK_S", 1.0)
    now = [1_000.0]
    monkeypatch.setattr(breached_passwords, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(breached_passwords, "_looked", None)
    install("first\n")
    assert is_breached("first")
    install("second\n")
    now[0] += 0.99
    assert [is_breached(text) for text in ("first", "second")] == [True, False]
    now[0] += 0.01
    assert [is_breached(text) for text in ("first", "second")] == [False, True]
    breached_passwords.path().unlink()
    assert is_breached("second")
    with override_settings(IRONAUTH_BREACHED_PASSWORDS=str(breached_passwords.path().with_name("other"))):
        assert not is_breached("second")


def test_a_new_list_needs_no_restart(install: Install) -> None:
    """A running server takes the list that was installed last."""
    install("first\n")
    assert is_breached("first")
    install("second\n")
    assert [is_breached(text) for text in ("first", "second")] == [False, True]
    breached_passwords.path().unlink()
    assert not is_breached("second")


def test_a_failed_installation_changes_nothing(install: Install, tmp_path: Path) -> None:
    """A source without passwords, or one that breaks off, leaves the list there and no other file."""
    install(f"{STOLEN}\n")
    with pytest.raises(CommandError, match="stays as it is"):
        install("\n\n")

    def breaks_off() -> Any:
        yield prefix_of("other")
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="gone"):
        build(breaks_off(), breached_passwords.path())
    assert is_breached(STOLEN)
    assert [path.name for path in breached_passwords.path().parent.iterdir()] == ["breached"]
    with pytest.raises(CommandError, match="No such file"):
        call_command("breached_passwords", "install", str(tmp_path / "nowhere"))


@pytest.mark.django_db
@pytest.mark.storage
def test_the_trail_hears_of_a_list(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Install
) -> None:
    """How long it is, and nothing that is in it; nothing of one not installed. Without a trail it is printed."""
    source = tmp_path / "source"
    source.write_text(f"{STOLEN}\nother\n", encoding="utf-8")
    call_command("breached_passwords", "install", str(source), stdout=StringIO())
    with pytest.raises(CommandError, match="stays as it is"):
        call_command("breached_passwords", "install", os.devnull, stdout=StringIO())
    (event,) = AuditEvent.objects.all()
    assert (event.event, event.outcome, event.actor_id) == ("breached_list_installed", "success", None)
    assert event.details == {"passwords": 2}

    def gone(*_: object, **__: object) -> None:
        raise OperationalError

    monkeypatch.setattr(audit, "record", gone)
    source.write_text("third\n", encoding="utf-8")
    with pytest.raises(CommandError, match="installed; the audit trail could not be written"):
        call_command("breached_passwords", "install", str(source), stdout=StringIO())
    assert is_breached("third")


@pytest.mark.django_db
def test_the_command_answers_and_reads_from_a_pipe(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """``check`` takes a password from standard input, never from the command line, and ``install -`` a list."""

    def check(text: str) -> str:
        out = StringIO()
        monkeypatch.setattr(sys, "stdin", StringIO(text))
        call_command("breached_passwords", "check", stdout=out)
        return out.getvalue()

    with pytest.raises(CommandError, match="There is no list at"):
        check(STOLEN)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{STOLEN}\n".encode())))
    call_command("breached_passwords", "install", "-", stdout=StringIO())
    assert check(f"{STOLEN}\n") == "The list has it.\n"
    assert check(f"{PASSWORD}\n") == "The list does not have it.\n"


async def test_a_server_does_not_start_without_the_list_it_was_told_of(install: Install, settings: Settings) -> None:
    """A configured path without a list, or with another file, stops the start; no path, no list, no matter."""
    with pytest.raises(ImproperlyConfigured, match="breached_passwords install"):
        await breached_passwords.open_at_start()
    install(f"{STOLEN}\n")
    with capture_logs() as logs:
        await breached_passwords.open_at_start()
    assert logs == [{"event": "breached_passwords_ready", "passwords": 1, "log_level": "info"}]
    breached_passwords.path().write_bytes(MAGIC + b"short")
    with pytest.raises(ImproperlyConfigured):
        await breached_passwords.open_at_start()
    settings.IRONAUTH_BREACHED_PASSWORDS = ""
    settings.BASE_DIR = breached_passwords.path().parent
    await breached_passwords.open_at_start()


@pytest.mark.parametrize("content", [b"", b"another file altogether", MAGIC + b"1234567"])
def test_a_file_that_is_no_list_refuses_nobody(install: Install, content: bytes) -> None:
    """It is logged once, not at every sign-in, and every password passes; the next list is read again."""
    install("word\n")
    breached_passwords.path().write_bytes(content)
    with capture_logs() as logs:
        assert not is_breached("word")
        assert not is_breached("word")
    assert [line["event"] for line in logs] == ["breached_passwords_unreadable"]
    install("word\n")
    assert is_breached("word")


# ---------------------------------------------------------------- what follows
@pytest.fixture
def user(make_user: MakeUser) -> User:
    """Somebody whose password is in no list yet."""
    return make_user(email="mia@example.com", is_staff=True)


def stored(user: User) -> User:
    """Return the user as stored."""
    return User.objects.get(pk=user.pk)


async def sign_up(user: User, password: str) -> None:
    await own_account.sign_up(email="new@example.com", password=password)


async def change(user: User, password: str) -> None:
    await services.change_password(user_id=user.pk, shown=Evidence(password=PASSWORD), new_password=password)


async def create(user: User, password: str) -> None:
    rights = {"is_active": True, "is_staff": False, "is_superuser": False, "email_verified": False, "roles": []}
    words = dict.fromkeys(("name", "given_name", "family_name", "preferred_username", "zoneinfo"), "")
    values = {"email": "new@example.com", "password": password, **words, **rights}
    await User.objects.filter(pk=user.pk).aupdate(is_superuser=True)
    await staff_services.create_user(actor_id=user.pk, values=values)


@pytest.mark.parametrize("act", [sign_up, change, create])
@pytest.mark.django_db(transaction=True)
@pytest.mark.storage
async def test_none_of_them_can_be_chosen(
    act: Callable[[User, str], Awaitable[None]], user: User, install: Install
) -> None:
    """Sign-up, change and staff: refused with the reason while it is in the list, and taken otherwise."""
    await sync_to_async(install)(f"{STOLEN}\n")
    with pytest.raises(ValidationFailed) as refused:
        await act(user, STOLEN)
    (error,) = refused.value.errors
    assert error.field in ("password", "new_password")
    assert error.code == "password_breached"
    assert "stolen" in error.message
    await sync_to_async(install)("another\n")
    await act(user, STOLEN)


@pytest.mark.django_db(transaction=True)
@pytest.mark.storage
async def test_a_reset_keeps_its_token(api: httpx.AsyncClient, user: User, install: Install) -> None:
    """Over HTTP: 400 with the field, and the same link takes another password."""
    await sync_to_async(install)(f"{STOLEN}\n")
    token = await token_for(api, "password/reset", user.email)
    answer = await confirm(api, token, STOLEN)
    assert answer.status_code == 400
    assert [(error["field"], error["code"]) for error in answer.json()["errors"]] == [
        ("new_password", "password_breached")
    ]
    assert (await confirm(api, token)).status_code == 204
    with pytest.raises(Exception, match="expired"):
        await email_services.reset_password(token=token, new_password=PASSWORD)


@pytest.mark.django_db
@pytest.mark.storage
def test_the_admin_and_createsuperuser_ask_too(root: User, client: Client, install: Install) -> None:
    """The form shows the reason beside the field."""
    install(f"{STOLEN}\n")
    data = {"email": "new@example.com", "name": "", "password1": STOLEN, "password2": STOLEN}
    page = client.post(reverse("admin:accounts_user_add"), {**data, "usable_password": "true"})
    assert breached_passwords.MESSAGE in page.context["adminform"].form.errors["password1"]


@pytest.mark.usefixtures("signing_key")
@pytest.mark.django_db(transaction=True)
@pytest.mark.storage
async def test_a_sign_in_is_a_flag_and_not_a_refusal(api: httpx.AsyncClient, user: User, install: Install) -> None:
    """The person gets in, is told once, and the trail knows; a new password is clean."""
    assert await sign_in_status(api, user.email, PASSWORD) == 200
    assert (await sync_to_async(stored)(user)).password_flagged_at is None
    await sync_to_async(install)(f"{PASSWORD}\n")
    assert await sign_in_status(api, user.email, "wrong") == 401
    assert await delivered() == []
    for _ in range(2):
        assert await sign_in_status(api, user.email, PASSWORD) == 200
    assert await delivered() == [(user.email, "Your password is known to others", None)]
    flagged = await sync_to_async(stored)(user)
    assert flagged.password_flagged_at is not None
    assert flagged.session_epoch == 0
    assert await AuditEvent.objects.filter(event="password_flagged", user_id=user.pk).acount() == 1
    await services.change_password(user_id=user.pk, shown=Evidence(password=PASSWORD), new_password=STOLEN)
    assert (await sync_to_async(stored)(user)).password_flagged_at is None
    assert await sign_in_status(api, user.email, STOLEN) == 200
    assert (await sync_to_async(stored)(user)).password_flagged_at is None


@pytest.mark.django_db(transaction=True)
@pytest.mark.storage
async def test_a_sign_in_that_also_makes_the_hash_anew_flags(user: User, install: Install, settings: Settings) -> None:
    """The password is the same whatever its hash."""
    await sync_to_async(install)(f"{PASSWORD}\n")
    settings.IRONAUTH_ARGON2_TIME_COST = 2
    await services.authenticate(email=user.email, password=PASSWORD)
    found = await sync_to_async(stored)(user)
    assert "t=2" in found.password
    assert found.password_flagged_at is not None


@pytest.mark.django_db(transaction=True)
@pytest.mark.storage
async def test_many_at_once_flag_once(user: User, install: Install) -> None:
    """Of sign-ins in parallel one sends the message."""
    await sync_to_async(install)(f"{PASSWORD}\n")
    await asyncio.gather(*(services.authenticate(email=user.email, password=PASSWORD) for _ in range(4)))
    assert await OutgoingMail.objects.acount() == 1


@pytest.mark.django_db
@pytest.mark.storage
def test_a_password_changed_meanwhile_is_not_flagged(user: User) -> None:
    """One statement when there is nothing to note; a bulk write of passwords clears the flag as well."""
    found = user_queries.credentials_of_email("mia@example.com")
    assert found is not None
    User.objects.filter(pk=user.pk).update(password="!another")
    with CaptureQueriesContext(connection) as captured:
        units.flag_password(found)
    assert len(captured) == 1
    assert stored(user).password_flagged_at is None
    present = user_queries.credentials_of_id(user.pk)
    assert present is not None
    with CaptureQueriesContext(connection) as captured:
        units.flag_password(present)
    assert len(captured) == 3
    assert stored(user).password_flagged_at is not None
    User.objects.filter(pk=user.pk).update(password="!one more")
    assert stored(user).password_flagged_at is None


@pytest.mark.django_db
@pytest.mark.storage
def test_the_admin_flags_and_shows_it(user: User, root: User, client: Client, install: Install) -> None:
    """Staff are flagged at their sign-in as everybody is, and the list finds who is."""
    install(f"{PASSWORD}\n")
    for _ in range(2):
        entered = Client().post(reverse("admin:login"), {"username": user.email, "password": PASSWORD})
        assert entered.status_code == 302
    assert OutgoingMail.objects.filter(kind="password_flagged").count() == 1
    path = reverse("admin:accounts_user_changelist")
    for empty, shown in (("0", True), ("1", False)):
        page = client.get(path, {"password_flagged_at__isempty": empty}).content.decode()
        assert (user.email in page) == shown
    assert "password found in a breach" in page
    for forbidden in ("password__startswith", "password_flagged_at__gt"):
        assert client.get(path, {forbidden: "a"}).status_code == 400


@pytest.mark.django_db(transaction=True)
async def test_a_disk_that_fails_refuses_nobody(user: User, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is advice: what cannot be read is logged, and the sign-in goes on."""
    await sync_to_async(install)(f"{PASSWORD}\n")

    def fails(*_: Any) -> bytes:
        raise OSError("input/output error")

    assert is_breached(PASSWORD)
    monkeypatch.setattr(os, "pread", fails)
    with capture_logs() as logs:
        assert (await services.authenticate(email=user.email, password=PASSWORD)).id == user.pk
    assert "breached_passwords_unreadable" in [line["event"] for line in logs]
    assert not any(PASSWORD in str(line) for line in logs)
