"""What people do with their own account, below HTTP."""

import asyncio
import random
import statistics
import threading
import time
import uuid
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import Group
from django.db import connection
from pytest_django import DjangoAssertNumQueries, Settings

from accounts.conftest import PASSWORD, MakeUser
from accounts.errors import EmailTaken, InvalidCredentials, LastSuperuser, PasswordChanged
from accounts.own_account import services as own_account
from accounts.users import queries as user_queries
from accounts.users import services
from accounts.users.models import User
from accounts.users.outputs import account
from accounts.users.proofs import Evidence
from ironauth.infrastructure.core.errors import NotAuthenticated, Overloaded, ValidationFailed
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.telemetry import logs

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]
NEW_PASSWORD = "another otter rides 7 trams"


@pytest.fixture
def user(transactional_db: None, make_user: MakeUser) -> User:
    """Make one person."""
    return make_user(email="Mia@Example.com", name="Mia")


async def test_sign_up_race_has_one_winner() -> None:
    """Of many simultaneous sign-ups of one address, in any case, one succeeds and the others are "taken"."""
    spellings = ["mia@example.com", "MIA@example.com", "Mia@Example.com", "mia@EXAMPLE.COM"] * 3
    results = await asyncio.gather(
        *(own_account.sign_up(email=email, password=PASSWORD) for email in spellings), return_exceptions=True
    )
    assert sum(isinstance(result, EmailTaken) for result in results) == len(spellings) - 1
    assert await User.objects.acount() == 1


async def test_taken_address_is_not_hashed_for(user: User) -> None:
    """A sign-up that cannot succeed does not occupy the hash pool."""
    jobs = hash_pool().stats().completed
    with pytest.raises(EmailTaken):
        await own_account.sign_up(email="mia@EXAMPLE.com", password=PASSWORD)
    assert hash_pool().stats().completed == jobs


async def test_sign_up_enforces_the_policy_by_itself() -> None:
    """Anybody who calls the service gets the policy, not only HTTP clients."""
    with pytest.raises(ValidationFailed) as refused:
        await own_account.sign_up(email="mia@example.com", password="mia12345678901")
    assert [error.code for error in refused.value.errors] == ["password_too_short"]


async def test_authenticate_tells_who_it_is_and_under_which_epoch(user: User) -> None:
    """The right password names the person and the epoch it was right under, whatever case the address came in."""
    await User.objects.filter(pk=user.pk).aupdate(session_epoch=4)
    account = await services.authenticate(email="MIA@example.COM", password=PASSWORD)
    assert account.id == user.pk
    assert account.session_epoch == 4


@pytest.mark.parametrize("kind", ["unknown", "wrong", "inactive", "unusable", "too long", "look-alike", "nul"])
async def test_every_refused_sign_in_is_the_same(kind: str, user: User) -> None:
    """One hash job and one error, whatever was wrong."""
    email, password = user.email, PASSWORD
    match kind:
        case "unknown":
            email = "nobody@example.com"
        case "wrong":
            password = "wrong"
        case "inactive":
            await User.objects.filter(pk=user.pk).aupdate(is_active=False)
        case "unusable":
            await User.objects.filter(pk=user.pk).aupdate(password="!none")
        case "too long":
            password = "x" * 1025
        case "look-alike":
            email = "m\u0131a@example.com"
        case "nul":
            email = "mia@example.com\x00"
    jobs = hash_pool().stats().completed
    with pytest.raises(InvalidCredentials) as refused:
        await services.authenticate(email=email, password=password)
    assert hash_pool().stats().completed == jobs + 1
    assert refused.value.detail == InvalidCredentials.detail
    assert refused.value.headers == InvalidCredentials().headers


async def test_refusals_take_the_same_time(
    user: User, make_user: MakeUser, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In shuffled order, unknown, wrong and inactive sign-ins take the same time: no class skips or repeats a hash."""

    async def at_once(began_ns: int, step_s: float) -> None:
        """Answer at odd times: even ones round a tenth up to a half."""

    monkeypatch.setattr(services, "wait_for_step", at_once)
    settings.IRONAUTH_ARGON2_MEMORY_KIB = 8_192
    await sync_to_async(make_user)(email="known@example.com")
    await sync_to_async(make_user)(email="inactive@example.com", is_active=False)
    times: dict[str, list[float]] = {"unknown": [], "known": [], "inactive": []}
    for _ in range(60):
        for who in random.sample(list(times), k=3):
            began = time.perf_counter()
            with pytest.raises(InvalidCredentials):
                await services.authenticate(email=f"{who}@example.com", password="wrong password, all of them")
            times[who].append(time.perf_counter() - began)
    medians = [statistics.median(taken) for taken in times.values()]
    # A run more or less would be a factor of two; a machine that does other things moves a median by a tenth.
    assert max(medians) < 1.4 * min(medians), medians


async def test_outdated_hash_is_upgraded_at_sign_in(user: User, settings: Settings) -> None:
    """After costs grow, one sign-in stores the new ones; sessions live on; the next sign-in upgrades nothing."""
    settings.IRONAUTH_ARGON2_TIME_COST = 2
    account = await services.authenticate(email=user.email, password=PASSWORD)
    upgraded = await User.objects.aget(pk=user.pk)
    assert "t=2" in upgraded.password
    assert account.session_epoch == upgraded.session_epoch == 0
    jobs = hash_pool().stats().completed
    await services.authenticate(email=user.email, password=PASSWORD)
    assert hash_pool().stats().completed == jobs + 1
    assert (await User.objects.aget(pk=user.pk)).password == upgraded.password


async def test_migrated_hash_signs_in_and_becomes_argon2(user: User) -> None:
    """A product's PBKDF2 hashes keep working and are replaced by Argon2id with the first sign-in."""
    encoded = PBKDF2PasswordHasher().encode(PASSWORD, "somesalt", iterations=10)
    await User.objects.filter(pk=user.pk).aupdate(password=encoded)
    await services.authenticate(email=user.email, password=PASSWORD)
    assert (await User.objects.aget(pk=user.pk)).password.startswith("argon2$argon2id$")


async def test_failed_upgrade_never_fails_the_sign_in(user: User, settings: Settings) -> None:
    """When the new hash cannot be made, the person gets in, the old hash stays, and the failure is logged."""
    settings.IRONAUTH_ARGON2_MEMORY_KIB = 1  # less than Argon2 allows: hashing anew must fail
    account = await services.authenticate(email=user.email, password=PASSWORD)
    assert account.id == user.pk
    assert "m=256" in (await User.objects.aget(pk=user.pk)).password


async def test_change_of_password_ends_sessions_and_only_the_new_one_works(user: User) -> None:
    """The returned account carries the new epoch, which is committed; the old password is dead."""
    account = await services.change_password(
        user_id=user.pk, shown=Evidence(password=PASSWORD), new_password=NEW_PASSWORD
    )
    assert account.session_epoch == 1
    assert (await User.objects.aget(pk=user.pk)).session_epoch == 1
    with pytest.raises(InvalidCredentials):
        await services.authenticate(email=user.email, password=PASSWORD)
    assert (await services.authenticate(email=user.email, password=NEW_PASSWORD)).session_epoch == 1


async def test_change_of_password_needs_the_current_one_and_a_good_new_one(user: User) -> None:
    """A wrong current password and a new one made of one's own name change nothing."""
    with pytest.raises(InvalidCredentials):
        await services.change_password(user_id=user.pk, shown=Evidence(password="wrong"), new_password=NEW_PASSWORD)
    with pytest.raises(ValidationFailed) as refused:
        await services.change_password(
            user_id=user.pk, shown=Evidence(password=PASSWORD), new_password="Mia2024!Mia2024!"
        )
    assert [error.field for error in refused.value.errors] == ["new_password"]
    stored = await User.objects.aget(pk=user.pk)
    assert (stored.password, stored.session_epoch) == (user.password, 0)


async def test_two_changes_of_password_at_once_have_one_winner(user: User) -> None:
    """The second of two simultaneous changes is told, instead of silently undoing the first."""
    results = await asyncio.gather(
        *(
            services.change_password(
                user_id=user.pk, shown=Evidence(password=PASSWORD), new_password=f"{NEW_PASSWORD} {n}"
            )
            for n in range(4)
        ),
        return_exceptions=True,
    )
    losers = [result for result in results if isinstance(result, (PasswordChanged, InvalidCredentials))]
    assert len(losers) == 3, results
    assert (await User.objects.aget(pk=user.pk)).session_epoch == 1


async def test_deleting_an_account_needs_its_password(user: User) -> None:
    """A wrong password deletes nothing; with the right one the account can do nothing from then on."""
    with pytest.raises(InvalidCredentials):
        await own_account.delete_account(user_id=user.pk, shown=Evidence(password="wrong"))
    assert (await User.objects.aget(pk=user.pk)).is_active
    await own_account.delete_account(user_id=user.pk, shown=Evidence(password=PASSWORD))
    assert not (await User.objects.aget(pk=user.pk)).is_active


async def test_last_superuser_cannot_delete_the_account(make_user: MakeUser) -> None:
    """Somebody must be able to run the system; an inactive superuser cannot."""
    root = await sync_to_async(make_user)(is_superuser=True, is_staff=True)
    await sync_to_async(make_user)(is_superuser=True, is_active=False)
    with pytest.raises(LastSuperuser):
        await own_account.delete_account(user_id=root.pk, shown=Evidence(password=PASSWORD))
    await sync_to_async(make_user)(is_superuser=True)
    await own_account.delete_account(user_id=root.pk, shown=Evidence(password=PASSWORD))


@pytest.mark.parametrize("state", ["deleted", "inactive"])
async def test_gone_and_inactive_accounts_are_not_authenticated(state: str, user: User) -> None:
    """Whatever a token still says, the services answer 401 for an account that is gone or inactive, never 500."""
    await (user.adelete() if state == "deleted" else User.objects.filter(pk=user.pk).aupdate(is_active=False))
    calls = [
        services.update_profile(user_id=user.pk, values={"name": "New"}),
        services.change_password(user_id=user.pk, shown=Evidence(password=PASSWORD), new_password=NEW_PASSWORD),
        own_account.delete_account(user_id=user.pk, shown=Evidence(password=PASSWORD)),
        services.end_all_sessions(user_id=user.pk),
    ]
    for call in calls:
        with pytest.raises(NotAuthenticated):
            await call


async def test_end_all_sessions_raises_the_epoch(user: User) -> None:
    """Each call ends everything that began before it."""
    await services.end_all_sessions(user_id=user.pk)
    await services.end_all_sessions(user_id=user.pk)
    assert (await User.objects.aget(pk=user.pk)).session_epoch == 2


async def test_overload_is_not_a_refusal(user: User, settings: Settings) -> None:
    """A full pool answers 503 with Retry-After, so that nobody thinks the password was wrong."""
    settings.IRONAUTH_HASH_MAX_WAIT_S, settings.IRONAUTH_HASH_THREADS = 1.0, 1
    release = threading.Event()
    crowd = [asyncio.ensure_future(hash_pool().run(release.wait)) for _ in range(9)]  # more than a second of hashes
    await asyncio.sleep(0)
    try:
        with pytest.raises(Overloaded) as refused:
            await services.authenticate(email=user.email, password=PASSWORD)
        assert int(refused.value.headers["Retry-After"]) >= 1
    finally:
        release.set()
        await asyncio.gather(*crowd, return_exceptions=True)


async def test_nothing_secret_reaches_the_log(user: User, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither addresses nor passwords are in the log lines of any service (house rule 8)."""
    await own_account.sign_up(email="canary@example.org", password="canary otter rides 9 trams")
    for password in ("canary otter rides 9 trams", "wrong canary"):
        try:
            await services.authenticate(email="canary@example.org", password=password)
        except InvalidCredentials:
            continue
    logs.flush()
    printed = "".join(capfd.readouterr())
    assert "user_signed_up" in printed
    assert "sign_in_refused" in printed
    assert "canary" not in printed


def test_units_cost_what_they_say(user: User, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """Frozen query counts of everything a request waits for."""
    user.groups.add(*(Group.objects.create(name=f"role {n}") for n in range(5)))
    with django_assert_num_queries(1):
        assert user_queries.email_is_taken("mia@example.com")
    with django_assert_num_queries(1):
        assert user_queries.credentials_of_email("mia@example.com")
    with django_assert_num_queries(1):
        assert user_queries.credentials_of_email("nobody@example.com") is None
    with django_assert_num_queries(1):
        snapshot = user_queries.account_snapshot(user.pk)
    assert snapshot == account(user, [f"role {n}" for n in range(5)])
    with django_assert_num_queries(1):
        assert user_queries.account_snapshot(uuid.uuid4()) is None


def test_services_see_no_request() -> None:
    """Services and units of work know nothing of HTTP (design §4)."""
    for name in ("users/services", "staff/services", "users/units", "staff/units"):
        source = (Path(__file__).parents[2] / f"{name}.py").read_text()
        assert "django.http" not in source
        assert "rest_framework" not in source


@pytest.mark.only_postgres
async def test_sign_up_survives_connections_that_died_unused(user: User) -> None:
    """After a restart of the database every idle connection is dead: no sign-up fails for one."""

    def own_process() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid(), pg_sleep(0.05)")
            return int(cursor.fetchone()[0])

    def end(processes: list[int]) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s) AS pid", [processes])

    for number in range(3):
        processes = set(await asyncio.gather(*(database().read(own_process) for _ in range(12))))
        assert len(processes) > 1
        await sync_to_async(end)(list(processes))
        for again in range(4):
            await own_account.sign_up(email=f"late{number}{again}@example.com", password=PASSWORD)
