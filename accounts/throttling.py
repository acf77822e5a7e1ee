"""How often strangers may guess a password: what sign-in, and whoever asks for it once more, ask before the hash.

Sign-in has two counts. The client address (IPv6: its /64) has so many failures in any 15 minutes, whatever accounts
they were for. The account, that is the folded e-mail address, whether or not anybody has it, has consecutive failures
with growing waits and an end at 100 (``failure_count`` has the formula). A try counts as a failure from the moment it
is let in, before the hash, and a right password gives it back and resets the account's count.

Nobody can lock the owner out for good: a device that has signed in to this very account within 30 days has a count
of its own, which strangers do not touch. A browser is known by its device cookie, an API client by its address; the
browser is let in even where strangers behind the same address have used up that one's failures.

Whoever shares an owner's address may tell from this that they have been there; nobody else learns who exists.

What else is counted, and the keys of the counts: ``rate_limits``.
"""

from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import transaction

from accounts import emails, rate_limits
from accounts.rate_limits import SIGN_IN, Refused, mac
from ironauth.infrastructure import failure_count, sliding_window, window_store
from ironauth.infrastructure.client_address import client_network
from ironauth.infrastructure.database import database
from ironauth.infrastructure.errors import Unavailable
from ironauth.infrastructure.failure_count import FREE_FAILURES, Reserved
from ironauth.infrastructure.logs import get_logger
from ironauth.infrastructure.origin import Origin
from ironauth.infrastructure.sliding_window import Refusal, Taken
from ironauth.infrastructure.window_store import Question

#: How long a device is known after it signed in; seconds. As long as a session may last (SP 800-63B-4 §2.1.3).
KNOWN_S: Final = 30 * 86_400
UNKNOWN: Final = Origin()


class Attempt(NamedTuple):
    """A try that was let in, and counts as a failure until it is forgiven."""

    account: str
    devices: tuple[str, ...]
    address: tuple[str, ...]
    failure: Reserved
    window: Taken | None


class _Plan(NamedTuple):
    """What is asked about a try, in MACs. ``address``: the key of the account at this address, if there is one."""

    rule: str
    account: str
    devices: tuple[str, ...] = ()
    address: tuple[str, ...] = ()
    asked: Question | None = None


# ------------------------------------------------------------------ sign-in
async def admit_sign_in(*, email: str, origin: Origin) -> Attempt | None:
    """Count a try to sign in and return it; None when throttles are off. Comes before the hash.

    One unit of work of three queries (address, known devices, account); with Redis one question there and two
    queries. A refusal costs one query more, and none at all when Redis knows of it, unless it brings a device cookie;
    one that the audit trail hears of (an hour's first of a count) another one. An unknown client address (a Unix socket
    without a configured proxy) has no count of its own. Raises ``Throttled`` (429), alike for every account.
    """
    if not settings.IRONAUTH_THROTTLE:
        return None
    plan = _sign_in(email, origin)
    window = await sliding_window.take_in_redis(plan.asked) if plan.asked else None
    if isinstance(window, Refusal) and not plan.devices:
        await rate_limits.refuse(_full_window(plan, window))
    found = await database().write(_admit, plan, window)
    if isinstance(found, Refused):
        await rate_limits.refuse(found, email=email if found.by == "account" else "")
    return found


async def give_back(attempt: Attempt | None) -> None:
    """Undo a try that was never judged, for instance because the hash pool was full. One unit of work."""
    if attempt is None:
        return
    if attempt.window is not None and attempt.window.in_redis:
        await sliding_window.give_back_to_redis(attempt.window)
    try:
        await database().write(_undo, attempt)
    except Unavailable:  # it counts; the caller has something worse to report
        get_logger().warning("throttle_not_given_back")


async def succeeded(attempt: Attempt | None, *, new_device: str = "") -> None:
    """Reset the account's count, and know this address, and ``new_device``, for 30 days.

    One unit of work of three queries (two with Redis, and one question there). Raises ``Unavailable``.
    """
    if attempt is None:
        return
    if attempt.window is not None and attempt.window.in_redis:
        await sliding_window.give_back_to_redis(attempt.window)
    await database().write(_forgive, attempt, _device_key(attempt.account, new_device))


# ------------------------------------------------------------------ sign-in to the admin: on its own threads
def admit_sign_in_blocking(*, email: str, origin: Origin) -> Attempt | None:
    """See admit_sign_in(); the same counts, on the calling thread's own connection."""
    if not settings.IRONAUTH_THROTTLE:
        return None
    plan = _sign_in(email, origin)
    window = sliding_window.take_in_redis_blocking(plan.asked) if plan.asked else None
    if isinstance(window, Refusal) and not plan.devices:
        rate_limits.refuse_blocking(_full_window(plan, window))
    with transaction.atomic():
        found = _admit(plan, window)
    if isinstance(found, Refused):
        rate_limits.refuse_blocking(found, email=email if found.by == "account" else "")
    return found


def give_back_blocking(attempt: Attempt | None) -> None:
    """See give_back()."""
    if attempt is None:
        return
    if attempt.window is not None and attempt.window.in_redis:
        sliding_window.give_back_to_redis_blocking(attempt.window)
    with transaction.atomic():
        _undo(attempt)


def succeeded_blocking(attempt: Attempt | None) -> None:
    """See succeeded()."""
    if attempt is None:
        return
    if attempt.window is not None and attempt.window.in_redis:
        sliding_window.give_back_to_redis_blocking(attempt.window)
    with transaction.atomic():
        _forgive(attempt, ())


def admit_confirmation_blocking(*, user_id: UUID) -> Attempt | None:
    """See admit_confirmation()."""
    return _admit_person_blocking(_Plan("confirmation", _confirmation(user_id)), user_id)


def admit_second_factor_blocking(*, user_id: UUID) -> Attempt | None:
    """See admit_second_factor()."""
    return _admit_person_blocking(_second_factor(user_id), user_id)


def _admit_person_blocking(plan: _Plan, user_id: UUID) -> Attempt | None:
    if not settings.IRONAUTH_THROTTLE:
        return None
    with transaction.atomic():
        found = _admit(plan, None)
    if isinstance(found, Refused):
        rate_limits.refuse_blocking(found, user_id=user_id)
    return found


# ------------------------------------------------------------------ everything else
async def admit_confirmation(*, user_id: UUID) -> Attempt | None:
    """Count a try to give the password of somebody who is signed in: a stolen session is no licence to guess.

    One unit of work of one query. Raises ``Throttled`` (429).
    """
    if not settings.IRONAUTH_THROTTLE:
        return None
    found = await database().write(_admit, _Plan("confirmation", _confirmation(user_id)), None)
    if isinstance(found, Refused):
        await rate_limits.refuse(found, user_id=user_id)
    return found


async def admit_second_factor(*, user_id: UUID) -> Attempt | None:
    """Count a try at the six digits of a person's app, wherever they are asked for: whoever gets here has the password.

    No device is known here, and a new password resets nothing: six digits are too few for it. The owner gets in with
    what is not counted here, a recovery code or a passkey, and either resets it. One unit of work of one query. Raises
    ``Throttled`` (429).
    """
    if not settings.IRONAUTH_THROTTLE:
        return None
    found = await database().write(_admit, _second_factor(user_id), None)
    if isinstance(found, Refused):
        await rate_limits.refuse(found, user_id=user_id)
    return found


def is_last_free(attempt: Attempt | None) -> bool:
    """Tell whether this try was the one after which waits begin; once in a row of failures."""
    return attempt is not None and attempt.failure.failures == FREE_FAILURES


# ------------------------------------------------------------------ units of work
def forgive_second_factor(user_id: UUID) -> None:
    """Reset the count of wrong second factors of this user: one was right, or they are gone. One query."""
    failure_count.forgive([_second_factor(user_id).account])


def succeeded_in_full(*, email: str, origin: Origin, new_device: str) -> None:
    """Do what `succeeded` does for a sign-in whose password was judged before its second factor. Two queries."""
    if not settings.IRONAUTH_THROTTLE:
        return
    plan = _sign_in(email, origin)
    known = _device_key(plan.account, new_device)
    failure_count.forgive(
        (plan.account, *(plan.devices if known else ())), remember=(*plan.address, *known), known_s=KNOWN_S
    )


def forgive_account(*, email: str, user_id: UUID | None) -> None:
    """Reset the account's counts, for instance after its password was reset by e-mail. Two queries.

    Those of its known devices too, which stay known: who forgot the password most likely guessed on one of them.
    ``user_id``: who has the address, None for nobody.
    """
    account = _account(email)
    failure_count.forgive([account, _beyond(account), *((_confirmation(user_id),) if user_id else ())])
    failure_count.forgive_devices(_forgiven(account))


def _admit(plan: _Plan, window: Taken | Refusal | None) -> Attempt | Refused:
    """Return the try, or which count refused it.

    What the address was counted for stays counted when the account refuses. A known browser, which may share the
    address with strangers, is let in beyond; all of an account's have one count there, so that many are no licence.
    """
    if window is None and plan.asked is not None:
        window = sliding_window.take_in_database(plan.asked)
    if isinstance(window, Refusal):
        if not (plan.devices and failure_count.is_known(plan.devices)):
            return _full_window(plan, window)
        window, failure = None, failure_count.reserve(_beyond(plan.account))
    else:
        devices = (*plan.devices, *plan.address)
        failure = failure_count.reserve(plan.account, devices=devices, forgiven=_forgiven(plan.account))
    if not isinstance(failure, Reserved):
        return Refused(plan.rule, "account", plan.account, failure)
    return Attempt(plan.account, plan.devices, plan.address, failure, window)


def _undo(attempt: Attempt) -> None:
    if attempt.window is not None and not attempt.window.in_redis:
        window_store.give_back(attempt.window.key, attempt.window.slot)
    failure_count.give_back(attempt.failure)


def _forgive(attempt: Attempt, new_devices: tuple[str, ...]) -> None:
    if attempt.window is not None and not attempt.window.in_redis:
        window_store.give_back(attempt.window.key, attempt.window.slot)
    # A device that is not given a new cookie keeps the one it has.
    kept = new_devices or tuple(key for key in attempt.devices if key == attempt.failure.key)
    forgotten = (attempt.account, attempt.failure.key, *(attempt.devices if new_devices else ()))
    failure_count.forgive(forgotten, remember=(*attempt.address, *kept), known_s=KNOWN_S)


# ------------------------------------------------------------------ keys and answers
def _sign_in(email: str, origin: Origin) -> _Plan:
    account = _account(email)
    network = client_network(origin.address)
    return _Plan(
        rule=SIGN_IN.name,
        account=account,
        devices=_device_key(account, origin.device),
        address=(mac("account at address", account, network),) if network else (),
        asked=rate_limits.client_question(SIGN_IN, origin.address),
    )


def _account(email: str) -> str:
    return mac("account", emails.lookup_key(email) or email)  # what is no address has a count of its own too


def _device_key(account: str, device: str) -> tuple[str, ...]:
    return (mac("account on device", account, device),) if device else ()


def _beyond(account: str) -> str:
    return mac("account beyond address", account)


def _forgiven(account: str) -> str:
    return mac("account forgiven", account)


def _confirmation(user_id: UUID) -> str:
    return mac("confirmation", str(user_id))


def _second_factor(user_id: UUID) -> _Plan:
    return _Plan("second_factor", mac("second factor", str(user_id)))


def _full_window(plan: _Plan, refusal: Refusal) -> Refused:
    return Refused(plan.rule, "address", plan.asked.key if plan.asked else "", refusal.wait_s)
