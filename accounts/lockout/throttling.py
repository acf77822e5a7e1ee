"""How often strangers may guess a password; asked before every hash, at sign-in and wherever it is asked for once more.

Sign-in has two kinds of counts. The client address (IPv6: its /64, and its /48 at ten times the limit) may fail so
often in any 15 minutes, whatever accounts it tries. The account, that is the folded e-mail address whether or not
somebody has it, may fail so often in a row, with growing waits and an end (formula: ``ratelimit.lockout``). A try
counts as a failure from the moment it is let in, before the hash. A right password gives it back and resets the
account's counts.

Nobody can lock the owner out for good. One password may have a hundred failures: strangers get 40 of them. The rest
belongs to devices that have signed in to this very account within 30 days, and strangers do not touch it. A browser is
known by its device cookie. An API client is known by its address, which it may share with strangers. So browsers and
addresses have a share each, and the browser is let in even where strangers behind the same address have used up the
share of addresses.

An address without an account is counted like any other. The counts still tell two things. Somebody who shares an
owner's address may notice that the owner was there. Somebody who keeps an account's count full notices, by the end of
the wait, that the owner has signed in. The keys are MACs (``rate_limits.mac``). All other counts: ``rate_limits``.
"""

from typing import Final, NamedTuple, NoReturn
from uuid import UUID

from django.conf import settings

from accounts import email_address as emails
from accounts.lockout import rate_limits
from accounts.lockout.rate_limits import SIGN_IN, Refused, Windows, mac
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http.client_context import ClientContext, client_network
from ironauth.infrastructure.ratelimit import lockout
from ironauth.infrastructure.ratelimit.lockout import FREE_FAILURES, Count, Reserved
from ironauth.infrastructure.ratelimit.window import RateLimitHit, Refusal, wait_now_s
from ironauth.infrastructure.telemetry.logs import get_logger

#: Consecutive failures of one password, by who tries; together ``MAX_FAILURES``. Each share is enough for typing
#: errors, with room for some waits. Strangers have the largest, and reach its end after two weeks without a pause.
STRANGERS: Final = 40
KNOWN_ADDRESSES: Final = 20
KNOWN_BROWSERS: Final = 20
SIGNED_IN: Final = 20
#: How long a device is known after it signed in; seconds. As long as a session may last (SP 800-63B-4 §2.1.3).
KNOWN_S: Final = 30 * 86_400
UNKNOWN: Final = ClientContext()


class LockoutKeys(NamedTuple):
    """What is asked about a try, in MACs. ``known``: devices it comes from, if they are known.

    ``devices`` and ``address``: their keys. ``forgotten``: names all the devices of the account.
    """

    rule: str
    account: Count
    browsers: Count | None = None
    addresses: Count | None = None
    devices: tuple[str, ...] = ()
    address: tuple[str, ...] = ()
    asked: tuple[RateLimitHit, ...] = ()
    forgotten: str = ""

    @property
    def known(self) -> list[tuple[str, Count]]:
        """The devices it would come from, and where their failures are counted; browsers first."""
        found = [(key, self.browsers) for key in self.devices] + [(key, self.addresses) for key in self.address]
        return [(key, count) for key, count in found if count]

    @property
    def counts(self) -> tuple[str, ...]:
        """The keys of all that counts wrong passwords here."""
        return tuple(count.key for count in (self.account, self.browsers, self.addresses) if count)


class Attempt(NamedTuple):
    """A try that was let in, and counts as a failure until it is forgiven."""

    plan: LockoutKeys
    failure: Reserved
    windows: Windows


# ------------------------------------------------------------------ sign-in
class PendingAttempt(NamedTuple):
    """A try that Redis, where there is one, has counted for the client address; ``admit`` counts the rest."""

    plan: LockoutKeys
    windows: Windows


async def begin_sign_in(*, email: str, context: ClientContext) -> PendingAttempt | None:
    """Count a try to sign in for the client address in Redis; call it before the hash, and ``admit`` after it.

    A refusal that Redis knows of costs no query, unless the client brings a device cookie. An unknown client address (a
    Unix socket without a configured proxy) has no count of its own.

    Args:
        email: The address that was typed, not yet judged.
        context: Where the try comes from.

    Returns:
        What ``admit`` takes; None when throttles are off.

    Raises:
        Throttled: (429) the client address has failed too often; alike for every account.
    """
    if not settings.IRONAUTH_THROTTLE:
        return None
    rate_limits.announce_sign_in()
    plan = sign_in_keys(email, context)
    windows = await rate_limits.take_in_redis(plan.asked)
    if windows.refusal is not None and not plan.devices:
        await rate_limits.refuse(_full_window(plan, windows, windows.refusal))
    return PendingAttempt(plan, windows)


async def admit_sign_in(*, email: str, context: ClientContext) -> Attempt | None:
    """Count a try to sign in by `begin_sign_in` and `admit` at once, where nothing else is read with it.

    Args:
        email: As it was typed.
        context: Where the try comes from.

    Returns:
        The try; None when throttles are off.

    Raises:
        Throttled: (429) the client or the account has failed too often.
    """
    pending = await begin_sign_in(email=email, context=context)
    if pending is None:
        return None
    found = await database().write(admit, pending)
    if isinstance(found, Refused):
        await refuse_sign_in(found, email=email)
    return found


def admit(pending: PendingAttempt) -> Attempt | Refused:
    """Return the try, or which count refused it. Unit of work.

    Three queries (address, known devices, account; one more for an IPv6 address), two with Redis; a refusal costs one
    more.
    """
    return _admit(pending.plan, pending.windows)


async def refuse_sign_in(refused: Refused, *, email: str) -> NoReturn:
    """Raise ``Throttled`` (429) for a try that ``admit`` refused; the audit trail hears of an hour's first.

    Args:
        refused: What ``admit`` returned.
        email: The address that was typed.
    """
    await rate_limits.refuse(refused, email=email if refused.by == "account" else "")


async def give_back(attempt: Attempt | None) -> None:
    """Undo a try that was never judged, for instance because the hash pool was full. One unit of work."""
    if attempt is None:
        return
    await rate_limits.give_back_to_redis(attempt.windows)
    try:
        await database().write(_undo, attempt)
    except Unavailable:  # it counts; the caller has something worse to report
        get_logger().warning("throttle_not_given_back")


async def succeeded(attempt: Attempt | None, *, new_device: str = "") -> None:
    """Reset the account's count, and know this address, and ``new_device``, for 30 days. One unit of work.

    Args:
        attempt: The try that was admitted; None when throttles are off.
        new_device: The device cookie that the answer sets; "" when it sets none.

    Raises:
        Unavailable: the database has no time for it.
    """
    if attempt is not None:
        await release_windows(attempt)
        await database().write(reset_counters, attempt, new_device=new_device)


async def release_windows(attempt: Attempt | None) -> None:
    """Take a right password off the counts in Redis; ``reset_counters`` does the rest. The try counts until then."""
    if attempt is not None:
        await rate_limits.give_back_to_redis(attempt.windows)


def network_wait_s(address: str) -> int:
    """Return how many seconds sign-ins from this address have to wait because of all that failed there; 0 for none.

    Counts nothing. Blocking; a query, two for an IPv6 address.

    Args:
        address: The client's IP address; "" where it is not known.
    """
    if not settings.IRONAUTH_THROTTLE:
        return 0
    return max((wait_now_s(asked) for asked in rate_limits.client_questions(SIGN_IN, address)), default=0)


# ------------------------------------------------------------------ everything else
async def admit_confirmation(*, user_id: UUID) -> Attempt | None:
    """Count a try to give the password of somebody who is signed in: a stolen session is no licence to guess.

    One unit of work of one query.

    Raises:
        Throttled: (429) Too many were wrong.
    """
    return await _admit_person(confirmation_keys(user_id), user_id)


async def admit_second_factor(*, user_id: UUID) -> Attempt | None:
    """Count a try at the six digits of a person's app: anybody who gets here has the password.

    No device is known here, and a new password resets nothing: six digits are too few for it. The owner gets in with
    what is not counted here, a passkey or a recovery code made here, and either resets it. One unit of work of one
    query.

    Args:
        user_id: The person.

    Raises:
        Throttled: (429) too many tries were wrong.
    """
    return await _admit_person(second_factor_keys(user_id), user_id)


async def _admit_person(plan: LockoutKeys, user_id: UUID) -> Attempt | None:
    if not settings.IRONAUTH_THROTTLE:
        return None
    found = await database().write(_admit, plan, Windows())
    if isinstance(found, Refused):
        await rate_limits.refuse(found, user_id=user_id)
    return found


def is_last_free(attempt: Attempt | None) -> bool:
    """Tell whether this try was the one after which waits begin; once in a row of failures."""
    return attempt is not None and attempt.failure.failures == FREE_FAILURES


# ------------------------------------------------------------------ units of work
def forgive_second_factor(user_id: UUID) -> None:
    """Reset the count of wrong second factors of this user: one was right, or they are gone. One query."""
    lockout.reset(second_factor_keys(user_id).counts)


def succeeded_in_full(*, email: str, context: ClientContext) -> None:
    """Do what `succeeded` does for a sign-in whose password was judged before its second factor. Two queries.

    Args:
        email: The address of the account.
        context: Where the sign-in comes from.
    """
    if not settings.IRONAUTH_THROTTLE:
        return
    plan = sign_in_keys(email, context)
    known = device_key(plan.account.key, context.new_device)
    lockout.reset((*plan.counts, *(plan.devices if known else ())), remember=(*plan.address, *known), known_s=KNOWN_S)


def forgive_account(*, email: str, user_id: UUID | None) -> None:
    """Reset the account's counts, for instance after its password was reset by e-mail. One query.

    Those of its known devices too, which stay known: its owner most likely forgot the password on one of them.

    Args:
        email: The account's address.
        user_id: Who has it; None for nobody.
    """
    signed_in = confirmation_keys(user_id).counts if user_id else ()
    lockout.reset((*sign_in_keys(email, UNKNOWN).counts, *signed_in))


def forget_devices(*, email: str) -> None:
    """Take every device that has signed in to this account for a stranger's. One query."""
    lockout.forget_devices(sign_in_keys(email, UNKNOWN).forgotten, known_s=KNOWN_S)


def _admit(plan: LockoutKeys, windows: Windows) -> Attempt | Refused:
    """Return the try, or which count refused it.

    What the address was counted for stays counted when the account refuses. A known browser, which may share the
    address with strangers, is let in beyond.
    """
    windows = rate_limits.take_in_database(windows)
    if windows.refusal is not None:
        browsers = plan._replace(address=()).known
        if not (plan.browsers and browsers and lockout.is_known(browsers, forgotten=plan.forgotten)):
            return _full_window(plan, windows, windows.refusal)
        failure = lockout.register_attempt(plan.browsers)
    else:
        failure = lockout.register_attempt(plan.account, known=plan.known, forgotten=plan.forgotten)
    if not isinstance(failure, Reserved):
        return Refused(plan.rule, "account", plan.account.key, failure)
    return Attempt(plan, failure, windows)


def _undo(attempt: Attempt) -> None:
    rate_limits.give_back(attempt.windows)
    lockout.give_back(attempt.failure)


def reset_counters(attempt: Attempt, *, new_device: str = "") -> None:
    """Do in a transaction what `succeeded` does, after ``release_windows``. Three queries, two with Redis.

    Args:
        attempt: The try that was admitted.
        new_device: The device cookie that the answer sets; "" when it sets none.
    """
    new_devices = device_key(attempt.plan.account.key, new_device)
    rate_limits.give_back(attempt.windows)
    plan = attempt.plan
    known = plan.browsers is not None and attempt.failure.key == plan.browsers.key
    kept = new_devices or (plan.devices if known else ())  # without a new cookie the browser keeps the one it has
    forgotten = (*plan.counts, *(plan.devices if new_devices else ()))
    lockout.reset(forgotten, remember=(*plan.address, *kept), known_s=KNOWN_S)


# ------------------------------------------------------------------ keys and answers
def sign_in_keys(email: str, context: ClientContext) -> LockoutKeys:
    """Return what is asked about a try to sign in with this address, typed and not yet judged.

    Args:
        email: The address that was typed, not yet judged.
        context: Where the try comes from.
    """
    account = mac("account", emails.lookup_key(email) or email)  # what is no address has a count of its own too
    network = client_network(context.address)
    return LockoutKeys(
        rule=SIGN_IN.name,
        account=Count(account, STRANGERS),
        browsers=Count(mac("account's known browsers", account), KNOWN_BROWSERS),
        addresses=Count(mac("account's known addresses", account), KNOWN_ADDRESSES),
        devices=device_key(account, context.device),
        address=(mac("account at address", account, network),) if network else (),
        asked=rate_limits.client_questions(SIGN_IN, context.address),
        forgotten=mac("account's devices forgotten", account),
    )


def device_key(account: str, device: str) -> tuple[str, ...]:
    """Return the key of the account (given by its own) on the device with this cookie; none without a cookie.

    Args:
        account: The key of the account's own count.
        device: The value of the device cookie; "" without one.
    """
    return (mac("account on device", account, device),) if device else ()


def confirmation_keys(user_id: UUID) -> LockoutKeys:
    """Return what is asked about the password of somebody who is signed in."""
    return LockoutKeys("confirmation", Count(mac("confirmation", str(user_id)), SIGNED_IN))


def second_factor_keys(user_id: UUID) -> LockoutKeys:
    """Return what is asked about the second factor of somebody whose password was right."""
    return LockoutKeys("second_factor", Count(mac("second factor", str(user_id))))


def _full_window(plan: LockoutKeys, windows: Windows, refusal: Refusal) -> Refused:
    return Refused(plan.rule, "address", windows.refused_key, refusal.wait_s)
