"""No sequence of requests tells who has an account where addresses have to be proved (security-bar row 63).

Each test takes the same steps for a person of every kind and for an address without an account, and compares all that
a stranger gets to see: status, headers and body of every answer.
"""

import re
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.conftest import PASSWORD, MakeUser, SignIn
from accounts.mfa.totp.models import TotpFactor
from accounts.outbox import queue as outbox
from accounts.outbox.kinds import Kind
from accounts.outbox.models import OutgoingMail
from accounts.own_account import units as sign_up_units
from accounts.passwords import breached as breached_passwords
from accounts.privacy import units as deletions
from accounts.users.models import User
from ironauth.infrastructure.core import clock, constant_time
from ironauth.infrastructure.hashing.pool import hash_pool

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.storage,
    pytest.mark.usefixtures("signing_key", "throttled"),
]

ACCESS = "/api/v1/access"
GUESS = "seven amber kites over Lyon"
EMAIL = "mia@example.com"
WRONG = "wrong horse battery 7"

#: Who may have the address that a stranger asks about.
KINDS = ("nobody", "proved", "unproved", "inactive", "leaving", "without password", "must change", "with a factor")


@pytest.fixture(autouse=True)
def _proof_required(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = True
    monkeypatch.setattr(constant_time, "STEP_S", 0.001)  # times are the business of other tests


def settle(kind: str, make_user: MakeUser) -> None:
    """Let the address be of somebody of this kind, with a password that the stranger does not know."""
    if kind == "nobody":
        return
    fields: dict[str, dict[str, Any]] = {
        "unproved": {"email_verified_at": None},
        "inactive": {"is_active": False},
        "without password": {"password": None},
        "must change": {"must_change_password": True},
    }
    user = make_user(**{"email": EMAIL, "email_verified_at": clock.now(), **fields.get(kind, {})})
    if kind == "leaving":
        with transaction.atomic():
            deletions.request(user_id=user.pk, old=user.password, session_id=None)
    if kind == "with a factor":
        TotpFactor.objects.create(user=user, master_key_id="k1", sealed=b"x", confirmed_at=clock.now())


def trail() -> Counter[tuple[Any, ...]]:
    """Return what the trail says of sign-ins, and how often, without the person they are about."""
    assert audit.wait_until_written()
    events = AuditEvent.objects.filter(event__in=("sign_in", "admin_sign_in", "throttled"))
    told = ({name: value for name, value in row.details.items() if name != "reason"} for row in events)  # staff's
    return Counter(
        (row.event, row.outcome, row.actor_id, str(details)) for row, details in zip(events, told, strict=True)
    )


def seen(answer: httpx.Response) -> tuple[Any, ...]:
    """Return what an answer shows, without what differs in any two answers."""
    headers = {name: value for name, value in answer.headers.items() if name != "x-request-id"}
    body = re.sub(
        rb'"(?:request_id|code_token)":"[\w-]+"|(?:name="request" value|data-autofill)="[^"]+"', b"", answer.content
    )
    return answer.status_code, tuple(sorted(headers.items())), body


type Step = Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]


def post(path: str, **body: str) -> Step:
    """Return the step that sends this to the API."""

    async def step(api: httpx.AsyncClient) -> httpx.Response:
        return await api.post(f"{ACCESS}/{path}", json=body)

    return step


SIGN_UP = post("signup", email=EMAIL, password=GUESS)
SIGN_IN = post("signin", email=EMAIL, password=GUESS)
SIGN_IN_FORM = post("signin", email=EMAIL.upper(), password=GUESS, transport="cookie")
ASK_CODE = post("signin/email", email=EMAIL)


async def guess_code(api: httpx.AsyncClient) -> httpx.Response:
    """Ask for a code to sign in with, and type what cannot be it."""
    token = (await ASK_CODE(api)).json().get("code_token", "of a refused asking")
    body = {"email": EMAIL, "code": "no code", "code_token": token}
    return await api.post(f"{ACCESS}/signin/email/confirm", json=body)


SEQUENCES = {
    "codes until mail is throttled": (ASK_CODE,) * 7,
    "guessed codes": (guess_code, SIGN_IN, SIGN_UP, guess_code, SIGN_IN),
    "wrong passwords until codes are throttled": (*(SIGN_IN,) * 11, guess_code),
    "sign-up, sign-in": (SIGN_UP, SIGN_IN, SIGN_IN_FORM, SIGN_IN),
    "sign-up until mail is throttled": (SIGN_UP,) * 7,
    "sign-up, sign-in until it is throttled": (SIGN_UP, *(SIGN_IN,) * 12),
    "sign-up, wrong and right until it is throttled": (
        SIGN_UP,
        *(post("signin", email=EMAIL, password=WRONG), SIGN_IN) * 6,
    ),
    "sign-up twice": (
        SIGN_UP,
        post("signup", email=EMAIL, password="nine purple lamps in Porto"),
        SIGN_IN,
        post("signin", email=EMAIL, password="nine purple lamps in Porto"),
    ),
    "reset, sign-up, sign-in": (post("password/reset", email=EMAIL), SIGN_UP, SIGN_IN),
    "sign-up, reset, sign-in": (SIGN_UP, post("password/reset", email=EMAIL), SIGN_IN),
    "resend, sign-up, resend, sign-in": (
        post("email/verify/resend", email=EMAIL),
        SIGN_UP,
        post("email/verify/resend", email=EMAIL),
        SIGN_IN,
    ),
}


@pytest.mark.parametrize("sequence", SEQUENCES)
async def test_no_sequence_tells_who_has_an_account(
    sequence: str, api: httpx.AsyncClient, make_user: MakeUser, settings: Settings, still_clock: float
) -> None:
    """Every answer is the same for every kind of person and for nobody, and costs the same hashes.

    ``Retry-After`` too: the clock stands still. The trail differs in the person of an event alone.
    """
    transcripts = {}
    for number, kind in enumerate(KINDS):
        await User.objects.all().adelete()
        settings.SECRET_KEY = f"{number}{settings.SECRET_KEY}"  # nothing that was counted before counts
        await sync_to_async(settle)(kind, make_user)
        jobs, events = hash_pool().stats().completed, await sync_to_async(trail)()
        answers = [seen(await step(api)) for step in SEQUENCES[sequence]]
        hashes = hash_pool().stats().completed - jobs
        transcripts[kind] = (answers, hashes, await sync_to_async(trail)() - events)
    for kind, transcript in transcripts.items():
        assert transcript == transcripts["nobody"], kind


@pytest.mark.live
@pytest.mark.parametrize("mode", ["off", "optional"])
async def test_elsewhere_a_sign_up_tells_and_nothing_else(
    mode: str, api: httpx.AsyncClient, make_user: MakeUser, settings: Settings, still_clock: float
) -> None:
    """What is promised where addresses need no proof: 409 for an address that is taken, and all else is the same."""
    settings.IRONAUTH_EMAIL_VERIFICATION = mode
    reset, resend = (post(path, email=EMAIL) for path in ("password/reset", "email/verify/resend"))
    transcripts = {}
    for number, kind in enumerate(KINDS):
        await User.objects.all().adelete()
        settings.SECRET_KEY = f"{number}{settings.SECRET_KEY}"
        await sync_to_async(settle)(kind, make_user)
        steps = (reset, *(SIGN_IN,) * 6, resend, *(SIGN_IN,) * 6, *(reset,) * 6)
        transcripts[kind] = [seen(await step(api)) for step in steps]
        assert (await SIGN_UP(api)).status_code == (201 if kind in ("nobody", "leaving") else 409)
    for kind, transcript in transcripts.items():
        assert transcript == transcripts["nobody"], kind


@pytest.mark.live
def test_the_admin_does_not_tell_either(make_user: MakeUser, settings: Settings, still_clock: float) -> None:
    """A sign-up, and sign-ins to the admin with its password until they are throttled: one page for everybody."""
    url, transcripts = reverse("admin:login"), {}
    for number, kind in enumerate(KINDS):
        User.objects.all().delete()
        settings.SECRET_KEY = f"{number}{settings.SECRET_KEY}"
        settle(kind, make_user)
        events = trail()
        with transaction.atomic():
            sign_up_units.create_quietly(email=EMAIL, encoded=make_password(GUESS), name="")
        pages, jobs = [], hash_pool().stats().completed
        for _ in range(12):
            answer = Client().post(url, {"username": EMAIL, "password": GUESS, "next": "/admin/"})
            text = re.sub(r'name="csrfmiddlewaretoken" value="\w+"|nonce="[^"]+"', "", answer.content.decode())
            pages.append((answer.status_code, text))
        transcripts[kind] = (pages, hash_pool().stats().completed - jobs, trail() - events)
    assert "Too many attempts" in transcripts["nobody"][0][-1][1]
    for kind, transcript in transcripts.items():
        assert transcript == transcripts["nobody"], kind


async def test_a_right_password_leaves_nothing_behind(
    api: httpx.AsyncClient, make_user: MakeUser, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the address is proved: no new hash, no flag and message for a breached password, no failure forgiven."""
    monkeypatch.setattr(breached_passwords, "is_breached", lambda _: True)
    user = await sync_to_async(make_user)(email=EMAIL)
    settings.IRONAUTH_ARGON2_TIME_COST += 1
    answers = [seen(await post("signin", email=EMAIL, password=PASSWORD)(api)) for _ in range(12)]
    assert [answer[0] for answer in answers] == [401] * 10 + [429] * 2
    stored = await User.objects.aget(pk=user.pk)
    assert (stored.password, stored.password_flagged_at) == (user.password, None)
    assert not await OutgoingMail.objects.aexists()


async def test_proved_and_staff_take_it_back(api: httpx.AsyncClient, make_user: MakeUser) -> None:
    """A right password opens an account whose address is proved, and is a wrong one as soon as it no longer is."""
    user = await sync_to_async(make_user)(email=EMAIL, email_verified_at=clock.now())
    sign_in = post("signin", email=EMAIL, password=PASSWORD)
    assert (await sign_in(api)).status_code == 200
    await User.objects.filter(pk=user.pk).aupdate(email_verified_at=None)
    refused = seen(await sign_in(api))
    assert refused == seen(await post("signin", email=EMAIL, password=WRONG)(api))
    assert refused[0] == 401


async def test_a_wanted_address_is_not_told_by_the_export(
    api: httpx.AsyncClient, make_user: MakeUser, sign_in: SignIn
) -> None:
    """Who asks for an address finds the same in the export, whether another account has it or none.

    Also after its message was given up, and after staff had it tried again.
    """
    await sync_to_async(make_user)(email="known@example.com", email_verified_at=clock.now())
    exports = []
    for name in ("known", "unknown"):
        user = await sync_to_async(make_user)(email=f"asks-{name}@example.com", email_verified_at=clock.now())
        headers = await sign_in(user)
        body = {"new_email": f"{name}@example.com", "password": PASSWORD}
        assert (await api.post(f"{ACCESS}/email", json=body, headers=headers)).status_code == 202
        for wanted in (Kind.CHANGE_EMAIL, Kind.ACCOUNT_EXISTS):
            await sync_to_async(give_up_and_retry)(wanted, user)
        text = (await api.get(f"{ACCESS}/me/export", headers=headers)).raise_for_status().text
        assert f'"new_email":"{name}@example.com"' in text
        exports.append(re.sub(r'"[-0-9a-f]{32,36}"|"20\d\d-[^"]+"|\b(asks-)?(un)?known@', "", text))
    assert exports[0] == exports[1]


def give_up_and_retry(kind: Kind, staff: User) -> None:
    """Let the messages of this kind be refused by a mail server, and be tried again."""
    for mail_id in OutgoingMail.objects.filter(kind=kind).values_list("pk", flat=True):
        with transaction.atomic():
            mail = outbox.claim(mail_id)
            assert mail is not None
            assert outbox.failed(mail, for_good=True)
            assert outbox.try_again([mail_id], actor_id=staff.pk) == 1
