"""The first sign-in of somebody from the old system: who moves in, who does not, and that nobody can tell."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pyotp
import pytest
from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.db import connections, transaction
from pytest_django import Settings
from structlog.testing import capture_logs

from accounts.audit import recording as audit
from accounts.audit.events import Reason
from accounts.audit.models import AuditEvent
from accounts.conftest import PASSWORD as OTHER_PASSWORD
from accounts.conftest import MakeUser
from accounts.lazy_migration import asking
from accounts.lazy_migration.tests.old_system import EMAIL, PASSWORD, Asked, OldSystem, Said, endpoint, person
from accounts.mfa.totp.models import TotpFactor
from accounts.outbox.models import OutgoingMail
from accounts.passwords.formats import MAX_LENGTH
from accounts.passwords.old_system import RESERVE_S
from accounts.privacy import units as deletions
from accounts.transfer import queries
from accounts.transfer import units as transfer
from accounts.transfer.models import ImportedUser, LeftAddress, UserImport
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.constant_time import REFUSAL_STEP_S
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.hashing.pool import hash_pool

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.storage,
    pytest.mark.usefixtures("signing_key", "throttled"),
]

SIGN_IN = "/api/v1/access/signin"
SECRET = "MZXW6YTB" * 4
WRONG = "new red train in valley 7"

type Enter = Callable[..., Awaitable[httpx.Response]]


@pytest.fixture
def enter(api: httpx.AsyncClient) -> Enter:
    """Return what signs in."""

    async def signed_in(email: str = EMAIL, password: str = PASSWORD) -> httpx.Response:
        return await api.post(SIGN_IN, json={"email": email, "password": password})

    return signed_in


def seen(answer: httpx.Response) -> tuple[Any, ...]:
    """Return what an answer shows, without what differs in any two answers."""
    headers = {name: value for name, value in answer.headers.items() if name != "x-request-id"}
    return answer.status_code, sorted(headers.items()), {**answer.json(), "request_id": ""}


async def reasons() -> list[str]:
    """Return why sign-ins failed, by the trail, oldest first."""
    assert await asyncio.to_thread(audit.wait_until_written)
    rows = AuditEvent.objects.filter(event="sign_in", outcome="failure").order_by("at", "id")
    return [row.details["reason"] async for row in rows]


# ---------------------------------------------------------------- who moves in
async def test_somebody_moves_in(old_system: OldSystem, enter: Enter) -> None:
    """Address, name and password are theirs, the trail has one event for it; the next sign-in asks nobody."""
    answer = await enter()
    assert answer.status_code == 200, answer.text
    user = await User.objects.aget()
    assert (user.email, user.email_key, user.name) == (EMAIL, EMAIL.lower(), "Ann Lee")
    assert user.password.startswith("argon2")
    assert user.email_verified_at is None
    origin = await ImportedUser.objects.aget()
    assert (origin.user_id, origin.source, origin.external_id, origin.run_id) == (user.pk, "jsonl", "42", None)
    event = await AuditEvent.objects.aget(event="user_moved_in")
    assert (event.user_id, event.actor_id) == (user.pk, user.pk)
    assert event.details == {"source": "jsonl", "email_verified": False}
    assert (await enter()).status_code == 200
    assert len(old_system.requests) == 1


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("said", [False, True])
async def test_verified_is_what_the_operator_says(
    trusted: bool, said: bool, old_system: OldSystem, enter: Enter, settings: Settings
) -> None:
    """The old system's word counts where the operator trusts it; else the address is proved here, by a message."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    settings.IRONAUTH_LAZY_MIGRATION_TRUSTS_VERIFIED = trusted
    old_system.answers = endpoint(email_verified=said)
    answer = await enter()
    user = await User.objects.aget()
    is_verified = trusted and said
    assert (user.email_verified_at is not None) is is_verified
    assert answer.status_code == (200 if is_verified else 401)
    assert await OutgoingMail.objects.filter(kind="verify_email").aexists() is not is_verified
    if not is_verified:
        assert await reasons() == [Reason.ADDRESS_NOT_CONFIRMED]


async def test_an_app_is_asked_for_at_once(old_system: OldSystem, enter: Enter, api: httpx.AsyncClient) -> None:
    """An endpoint that hands over the secret of an app: the very first sign-in asks for its code."""
    old_system.answers = endpoint(totp_secret=SECRET)
    answer = await enter()
    assert (answer.status_code, answer.json()["code"]) == (401, "mfa_required")
    given = {"mfa_token": answer.json()["mfa_token"], "code": pyotp.TOTP(SECRET).now()}
    assert (await api.post(f"{SIGN_IN}/mfa", json=given)).status_code == 200
    assert len(old_system.requests) == 1


@pytest.mark.parametrize(("characters", "behind"), [(15, True), (16, False)])
async def test_an_app_of_80_bits_comes_along(
    old_system: OldSystem, enter: Enter, characters: int, behind: bool
) -> None:
    """A shorter secret stays behind, and the log names it; the person gets in."""
    old_system.answers = endpoint(totp_secret="A" * characters)
    with capture_logs() as lines:
        answer = await enter()
    assert answer.status_code == (200 if behind else 401)
    assert await TotpFactor.objects.aexists() is not behind
    user = await User.objects.aget()
    told = [(line["user_id"], line["reason"]) for line in lines if line["event"] == "app_left_behind"]
    assert told == ([(str(user.pk), "totp_secret_length")] if behind else [])


async def test_two_first_sign_ins_make_one_account(old_system: OldSystem, enter: Enter) -> None:
    """Both have asked before either is stored; one person comes of it, and both are signed in."""
    both = threading.Barrier(2, timeout=30)
    right = endpoint()

    def at_once(asked: Asked) -> Said:
        both.wait()
        return right(asked)

    old_system.answers = at_once
    answers = await asyncio.gather(enter(), enter(email=EMAIL.upper()))
    assert [answer.status_code for answer in answers] == [200, 200]
    assert len(old_system.requests) == 2
    assert await User.objects.acount() == await ImportedUser.objects.acount() == 1
    assert await AuditEvent.objects.filter(event="user_moved_in").acount() == 1


async def test_a_sign_up_meanwhile_keeps_its_password(old_system: OldSystem, enter: Enter, make_user: MakeUser) -> None:
    """Who signs up while the old system is asked has the account: the password there opens nothing."""
    right = endpoint()

    def meanwhile(asked: Asked) -> Said:
        make_user(email=EMAIL.lower())
        connections.close_all()  # of the thread of the old system
        return right(asked)

    old_system.answers = meanwhile
    assert (await enter()).status_code == 401
    assert await User.objects.acount() == 1
    assert not await ImportedUser.objects.aexists()
    assert (await enter(password=OTHER_PASSWORD)).status_code == 200


async def test_an_import_afterwards_finds_them(old_system: OldSystem, enter: Enter, tmp_path: Path) -> None:
    """The ids are those of the export: the rest of the people can be imported in one go."""
    await enter()
    file = tmp_path / "people.jsonl"
    file.write_text("\n".join(map(json.dumps, (person(), person(external_id="43", email="b@example.com")))))
    await sync_to_async(call_command)("import_users", str(file), "--from", "jsonl")
    assert await User.objects.acount() == 2
    run = await UserImport.objects.aget()
    assert (run.counts["already_imported"], run.counts["created"]) == (1, 1)
    await sync_to_async(call_command)("import_users", "--undo", str(run.pk))
    assert [user.email async for user in User.objects.all()] == [EMAIL]


# ---------------------------------------------------------------- who does not
@pytest.mark.parametrize("fields", [{}, {"is_active": False}, {"password": None}])
async def test_who_is_known_here_is_not_asked_for(
    fields: dict[str, Any], old_system: OldSystem, enter: Enter, make_user: MakeUser
) -> None:
    """Active, deactivated or without a password, in whatever case: the password there opens nothing."""
    await sync_to_async(make_user)(email=EMAIL.upper(), **fields)
    assert (await enter()).status_code == 401
    assert old_system.requests == []


@pytest.mark.parametrize("days", [0, 7])
async def test_who_is_deleted_here_does_not_come_back(
    days: int, old_system: OldSystem, enter: Enter, settings: Settings
) -> None:
    """At once, in the days of grace, and when those are over: the old system is not asked for that address again."""
    settings.IRONAUTH_DELETION_GRACE_DAYS = days
    assert (await enter()).status_code == 200
    user = await User.objects.aget()
    await database().write(deletions.request, user_id=user.pk, old=user.password, session_id=None)
    for email in (EMAIL, EMAIL.lower()):
        assert (await enter(email=email)).status_code == 401
    if days:
        with clock.shifted(days * 86_400 + 1):
            settings.IRONAUTH_LAZY_MIGRATION_UNTIL += timedelta(days=days)
            assert (await sync_to_async(deletions.purge_due)(10)).gone == 1
            assert not await User.objects.aexists()
            assert (await enter()).status_code == 401
    assert len(old_system.requests) == 1
    assert set(await reasons()) == {Reason.WAS_HERE}
    stored = [row.digest async for row in LeftAddress.objects.all()]
    assert len(stored) == 1
    assert EMAIL.lower() not in stored[0]


@pytest.mark.only_postgres
async def test_who_is_deleted_at_this_moment_does_not_come_back(
    old_system: OldSystem, enter: Enter, make_user: MakeUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moving in waits for a deletion that was not committed when it began, and sees what that has left."""
    user = await sync_to_async(make_user)(email="b@example.com")
    moves, deleted = threading.Event(), threading.Event()
    here = queries.is_here_by_another_address

    def begun(*arguments: Any) -> bool:
        """Say that the transaction is open, where nothing of the deletion can be seen."""
        assert not queries.has_left(EMAIL.lower())
        moves.set()
        return here(*arguments)

    def delete() -> None:
        with transaction.atomic():
            User.objects.filter(pk=user.pk).update(email=EMAIL, email_verified_at=clock.now())
            user.refresh_from_db()
            user.delete()
            deleted.set()
            assert moves.wait(30)
        connections.close_all()

    monkeypatch.setattr(queries, "is_here_by_another_address", begun)
    deleting = threading.Thread(target=delete)
    deleting.start()
    assert await asyncio.to_thread(deleted.wait, 30)
    assert (await enter()).status_code == 401
    deleting.join(30)
    assert await reasons() == [Reason.WAS_HERE]
    assert not await User.objects.aexists()


@pytest.mark.parametrize("by", ["deletion", "another address", "staff"])
async def test_a_stranger_who_leaves_keeps_nobody_out(
    by: str, old_system: OldSystem, enter: Enter, api: httpx.AsyncClient, settings: Settings
) -> None:
    """Who signs up with an address, never proves it and goes again leaves nothing behind: its owner moves in."""
    settings.IRONAUTH_DELETION_GRACE_DAYS = 7
    body = {"email": EMAIL, "password": OTHER_PASSWORD}
    assert (await api.post("/api/v1/access/signup", json=body)).status_code == 201
    user = await User.objects.aget()
    if by == "deletion":
        await database().write(deletions.request, user_id=user.pk, old=user.password, session_id=None)
    elif by == "staff":
        await user.adelete()
    else:
        user.email = "stranger@example.com"
        await user.asave()
    assert not await LeftAddress.objects.aexists()
    assert (await enter()).status_code == 200
    assert (await User.objects.aget(imported__source="jsonl")).email == EMAIL


@pytest.mark.parametrize(
    ("fields", "comes"),
    [({}, True), ({"email_verified_at": datetime(2026, 1, 1, tzinfo=UTC)}, False), ({"is_active": False}, False)],
)
async def test_whose_address_is_remembered(
    fields: dict[str, Any], comes: bool, old_system: OldSystem, enter: Enter, make_user: MakeUser
) -> None:
    """Of an account that is deleted: a proved one, and that of somebody who was deactivated."""
    user = await sync_to_async(make_user)(email=EMAIL, **fields)
    await user.adelete()
    assert (await enter()).status_code == (200 if comes else 401)
    assert len(old_system.requests) == int(comes)


async def test_who_is_deleted_by_staff_does_not_come_back(old_system: OldSystem, enter: Enter) -> None:
    """Whatever deletes the row: Django's own ``delete`` is what the admin calls."""
    await enter()
    await sync_to_async(User.objects.all().delete)()
    assert (await enter()).status_code == 401
    assert len(old_system.requests) == 1


@pytest.mark.parametrize("by", ["save", "update"])
async def test_who_has_another_address_now_does_not_come_twice(by: str, old_system: OldSystem, enter: Enter) -> None:
    """The address that was left is not asked for; nor does the id there get a second account here."""
    await enter()
    user = await User.objects.aget()
    if by == "save":
        user.email = "new@example.com"
        await user.asave()
    else:
        await User.objects.filter(pk=user.pk).aupdate(email="new@example.com")
    assert (await enter()).status_code == 401
    assert len(old_system.requests) == 1
    await LeftAddress.objects.all().adelete()  # as where it was left before lazy migration was on
    assert (await enter()).status_code == 401
    assert await reasons() == [Reason.WAS_HERE, Reason.HERE_BY_ANOTHER_ADDRESS]
    assert await User.objects.acount() == 1


async def test_one_id_at_two_addresses_at_once_is_one_person(old_system: OldSystem, enter: Enter) -> None:
    """Both have asked before either is stored: the id is unique, and one of the two is refused."""
    both = threading.Barrier(2, timeout=30)

    def at_once(asked: Asked) -> Said:
        both.wait()
        return Said(200, person(email=asked.json()["email"]))

    old_system.answers = at_once
    answers = await asyncio.gather(enter("first@example.com"), enter("second@example.com"))
    assert sorted(answer.status_code for answer in answers) == [200, 401]
    assert await User.objects.acount() == 1


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"email": "victim@example.com"}, Reason.OLD_SYSTEM_REFUSED),
        ({"email": ""}, Reason.OLD_SYSTEM_UNAVAILABLE),
        ({"is_active": False}, Reason.OLD_SYSTEM_REFUSED),
    ],
)
async def test_the_address_must_be_theirs_there(
    fields: dict[str, Any], reason: Reason, old_system: OldSystem, enter: Enter
) -> None:
    """A user name that looks like an address makes no account of that address; nor does who is inactive there move."""
    old_system.answers = endpoint(**fields)
    assert (await enter()).status_code == 401
    assert not await User.objects.aexists()
    assert await reasons() == [reason]


@pytest.mark.parametrize(
    ("email", "password"),
    [("no address", PASSWORD), (f"{'a' * 65}@example.com", PASSWORD), (EMAIL, "x" * (MAX_LENGTH + 1))],
)
async def test_what_no_account_may_have_is_not_sent(
    email: str, password: str, old_system: OldSystem, enter: Enter
) -> None:
    """No text that is no address, and no password longer than any here."""
    old_system.answers = lambda asked: Said(200, person(email=asked.json()["email"]))
    assert (await enter(email, password)).status_code in (400, 401)
    assert not await User.objects.aexists()
    if len(email) < 60:
        assert old_system.requests == []


# ---------------------------------------------------------------- off, and over
async def test_off_nobody_is_asked(old_system: OldSystem, enter: Enter, settings: Settings, steps: list[float]) -> None:
    """As it is unless somebody sets it: refusals leave as before, and nothing is remembered."""
    settings.IRONAUTH_LAZY_MIGRATION, settings.IRONAUTH_LAZY_MIGRATION_UNTIL = "off", None
    assert (await enter()).status_code == 401
    assert (old_system.requests, steps) == ([], [REFUSAL_STEP_S])
    user = await sync_to_async(User.objects.create_user)(email="b@example.com")
    await user.adelete()
    assert not await LeftAddress.objects.aexists()


@pytest.mark.parametrize(("after_s", "asked"), [(-1, 1), (0, 0)])
async def test_it_ends_by_itself(
    after_s: int, asked: int, old_system: OldSystem, enter: Enter, settings: Settings, still_clock: float
) -> None:
    """A second before the end of the last day the old system is asked; with it, nobody is any more."""
    settings.IRONAUTH_LAZY_MIGRATION_UNTIL = clock.now() - timedelta(seconds=after_s)
    await enter()
    assert len(old_system.requests) == asked


async def test_while_it_is_off_for_a_day_addresses_are_remembered(
    old_system: OldSystem, enter: Enter, settings: Settings
) -> None:
    """As long as it is not over: who is deleted meanwhile does not come back when it is on again."""
    await enter()
    settings.IRONAUTH_LAZY_MIGRATION = "off"
    await sync_to_async(User.objects.all().delete)()
    settings.IRONAUTH_LAZY_MIGRATION = "endpoint"
    assert (await enter()).status_code == 401
    assert len(old_system.requests) == 1


async def test_another_master_key_forgets_nothing(old_system: OldSystem, enter: Enter, settings: Settings) -> None:
    """What was remembered under an older key of the ring counts."""
    await enter()
    await sync_to_async(User.objects.all().delete)()
    settings.IRONAUTH_MASTER_KEYS = {"new": bytes(range(32)), **settings.IRONAUTH_MASTER_KEYS}
    assert (await enter()).status_code == 401
    assert len(old_system.requests) == 1


# ---------------------------------------------------------------- nobody can tell, and nobody guesses
async def test_nobody_can_tell_who_has_an_account(
    old_system: OldSystem,
    enter: Enter,
    make_user: MakeUser,
    settings: Settings,
    steps: list[float],
    still_clock: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until it is throttled, one answer, step and hash for all: known here, known there, to nobody, and left here."""
    right = endpoint()
    broken = asking.NotAskedError()

    async def down(**_: Any) -> None:
        raise broken

    async def with_account() -> None:
        await sync_to_async(make_user)(email=EMAIL)

    async def deactivated() -> None:
        await sync_to_async(make_user)(email=EMAIL, is_active=False)

    async def known_there() -> None:
        old_system.answers = right

    async def to_nobody() -> None:
        old_system.answers = lambda _: Said(404, {})

    async def left() -> None:
        user = await sync_to_async(make_user)(email=EMAIL, email_verified_at=clock.now())
        await user.adelete()

    async def down_there() -> None:
        monkeypatch.setattr(asking, "ask", down)

    transcripts = {}
    for number, who in enumerate((to_nobody, known_there, with_account, deactivated, left, down_there)):
        await User.objects.all().adelete()
        await LeftAddress.objects.all().adelete()
        settings.SECRET_KEY = f"{number}{settings.SECRET_KEY}"  # nothing that was counted before counts
        await who()
        steps.clear()
        jobs = hash_pool().stats().completed
        shown = [seen(await enter(password=WRONG)) for _ in range(12)]
        transcripts[who.__name__] = shown, list(steps), hash_pool().stats().completed - jobs
    answers, waits, hashes = transcripts["to_nobody"]
    assert hashes == len(waits)
    assert [answer[0] for answer in answers] == [401] * 10 + [429] * 2
    assert waits == [settings.IRONAUTH_LAZY_MIGRATION_TIMEOUT_S + RESERVE_S] * 10
    for name, transcript in transcripts.items():
        assert transcript == transcripts["to_nobody"], name


async def test_nobody_guesses_there_by_way_of_us(old_system: OldSystem, enter: Enter, still_clock: float) -> None:
    """Ten tries of one address are asked there; the eleventh is refused before, and so is the right one."""
    for _ in range(10):
        assert (await enter(password=WRONG)).status_code == 401
    assert (await enter(password=WRONG)).status_code == 429
    assert (await enter()).status_code == 429
    assert len(old_system.requests) == 10


async def test_a_right_password_forgives_the_tries_before(
    old_system: OldSystem, enter: Enter, still_clock: float
) -> None:
    """As at any sign-in: nine wrong ones, the right one, and nine wrong ones are let in."""
    for password in (*[WRONG] * 9, PASSWORD, *[WRONG] * 9):
        assert (await enter(password=password)).status_code == (200 if password == PASSWORD else 401)
    assert len(old_system.requests) == 10


async def test_an_outage_there_is_told_to_staff_alone(old_system: OldSystem, enter: Enter) -> None:
    """The answer is that of a wrong password; the trail has the reason."""
    refused = seen(await enter(password=WRONG))
    old_system.answers = lambda _: Said(500, {})
    assert seen(await enter()) == refused
    old_system.answers = endpoint()
    assert seen(await enter()) == refused  # the breaker leaves it alone for a moment
    assert await reasons() == [
        Reason.OLD_SYSTEM_REFUSED,
        Reason.OLD_SYSTEM_UNAVAILABLE,
        Reason.OLD_SYSTEM_UNAVAILABLE,
    ]


async def test_an_undone_import_may_move_in(old_system: OldSystem, enter: Enter) -> None:
    """Accounts that an import made and its undo took back were never anybody's here."""
    run = await UserImport.objects.acreate(source="jsonl")
    user = await sync_to_async(User.objects.create_user)(email=EMAIL)
    await ImportedUser.objects.acreate(user=user, source="jsonl", external_id="42", run=run)
    await sync_to_async(transfer.take_back)(run, transfer.BEGINNING)
    assert not await User.objects.aexists()
    assert (await enter()).status_code == 200
