"""Units of work on the verdict: read from the account, its counts of failures and its trail."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec
from django.conf import settings
from django.db.models import QuerySet, Value
from django.db.models.functions import Coalesce

from accounts import email_address as emails
from accounts.access.rights import rights_of
from accounts.audit import recording as audit
from accounts.audit.events import Reason
from accounts.audit.models import AuditEvent
from accounts.audit.recording import Event, Outcome
from accounts.federation.models import Identity
from accounts.lockout import throttling
from accounts.lockout.throttling import LockoutKeys
from accounts.mfa.passkeys.models import Passkey
from accounts.mfa.recovery.brought import UNGUESSED_CHARACTERS
from accounts.users.models import User
from accounts.verdict.outputs import Code, Verdict
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied
from ironauth.infrastructure.core.ids import first_id_at
from ironauth.infrastructure.http.client_context import client_network
from ironauth.infrastructure.models import ThrottleFailures
from ironauth.infrastructure.ratelimit.lockout import MAX_FAILURES

_RIGHT: Final = (Event.SIGN_IN, Event.SECOND_FACTOR_ASKED)  # with the outcome "success"
_WRONG: Final = (Reason.WRONG_PASSWORD, Reason.NO_PASSWORD, Reason.WRONG_CODE, Reason.OLD_SYSTEM_REFUSED)
_NEW_DEVICE: Final = (
    "A new device is a browser or a network that this person has not signed in from in the last "
    f"{throttling.KNOWN_S // 86_400} days. Known ones have counts of their own."
)
#: Shorter codes, which only other systems make, share the count of the app's (``mfa.recovery.brought``).
_STILL_OPEN: Final = (
    f"A passkey signs in, and a recovery code of {UNGUESSED_CHARACTERS} characters or more, as this service makes them."
)
_DAY: Final = timedelta(days=1)
_TOO_MANY: Final = "too many sign-ins failed there, on whatever accounts. A known browser need not."
MOST_NETWORKS: Final = 3  # of the last tries; each may cost two queries
MOST_TRIES: Final = 50  # looked at for their networks
TOLD_FROM: Final = 3  # wrong passwords since the last sign-in; fewer are everybody's
MOST_FAILURES: Final = 1_000  # failures looked at; beyond it the figures are the least there were


class _Wait(NamedTuple):
    """Until when a try has to wait, whether no more tries follow until then, and after how many failures."""

    until: datetime
    is_end: bool
    failures: int


def verdict_of(user_id: uuid.UUID) -> Verdict:
    """Return whether somebody can sign in now, and the first reason against it. At most eighteen queries.

    Raises:
        NotFound: There is no such user.
    """
    user = User.objects.select_related("pending_deletion").filter(pk=user_id).first()
    if user is None:
        raise NotFound
    verdict = _state(user)
    if verdict is not None:
        return verdict
    verdict = _lockout(user) or _verdict(Code.CAN_SIGN_IN, _how(user), **_wrong_lately(user))
    more = " ".join(filter(None, (verdict.more, _full_networks(user.pk))))
    return msgspec.structs.replace(verdict, more=more)


def forgive_failures(*, user_id: uuid.UUID, actor_id: uuid.UUID) -> None:
    """Reset the counts of wrong passwords and codes of an account, and leave an event.

    Args:
        user_id: The person whose counts are reset.
        actor_id: The member of staff.

    Raises:
        NotFound: There is no such user.
        PermissionDenied: It is a superuser's, whose password somebody of less rights could go on guessing then.
    """
    user = User.objects.filter(pk=user_id).first()
    if user is None:
        raise NotFound
    if user.is_superuser and not rights_of(actor_id).is_superuser:
        raise PermissionDenied("Only a superuser may forgive the failures of one.")
    throttling.forgive_account(email=user.email, user_id=user_id)
    throttling.forgive_second_factor(user_id)
    audit.record(Event.FAILURES_FORGIVEN, actor_id=actor_id, user_id=user_id)


def _state(user: User) -> Verdict | None:
    """Return what of the account itself keeps its person out."""
    if user.is_being_deleted:
        pending = user.pending_deletion
        words = f"Cannot sign in: the account is being deleted, for good on {_day(pending.due_at)}."
        return _verdict(Code.BEING_DELETED, words, since=pending.requested_at, until=pending.due_at)
    if not user.is_active:
        return _deactivated(user)
    if emails.is_proof_awaited(user.email_verified_at):
        return _verdict(Code.ADDRESS_NOT_CONFIRMED, "Cannot sign in: the e-mail address is not confirmed.")
    if user.must_change_password:
        words = (
            "Cannot sign in: has to choose another password first, by the link in the message or by a password reset."
        )
        return _verdict(Code.MUST_CHANGE_PASSWORD, words)
    if not _has_way_in(user):
        words = "Cannot sign in: has no password, passkey or identity at another provider. A password reset gives one."
        return _verdict(Code.NO_WAY_IN, words)
    return None


def _deactivated(user: User) -> Verdict:
    """Return since when the account is inactive, and who made it so, where the trail still knows."""
    events = AuditEvent.objects.filter(user_id=user.pk, event=Event.USER_CHANGED, details__is_active=False)
    event = events.order_by("-id").first()
    if event is None:
        return _verdict(Code.DEACTIVATED, "Cannot sign in: deactivated.")
    actor = User.objects.filter(pk=event.actor_id).values_list("email", flat=True).first() if event.actor_id else None
    by = f" by {actor}" if actor else ""
    return _verdict(Code.DEACTIVATED, f"Cannot sign in: deactivated{by} on {_day(event.at)}.", since=event.at)


def _has_way_in(user: User) -> bool:
    return (
        user.has_usable_password()
        or settings.IRONAUTH_SIGN_IN_BY_EMAIL
        or Passkey.objects.filter(user=user).exists()
        or Identity.objects.filter(user=user, provider__enabled=True).exists()
    )


def _how(user: User) -> str:
    """Return that somebody can sign in, and with what, where that is no password."""
    if user.has_usable_password():
        return "Can sign in."
    ways = ["a passkey"] if Passkey.objects.filter(user=user).exists() else []
    identities = Identity.objects.filter(user=user, provider__enabled=True).order_by("provider__name")
    ways += list(dict.fromkeys(identities.values_list("provider__name", flat=True)))
    ways += ["a code by e-mail"] if settings.IRONAUTH_SIGN_IN_BY_EMAIL else []
    return f"Can sign in with {' or '.join(ways)}, not with a password: there is none."


def _lockout(user: User) -> Verdict | None:
    """Return which count of failures makes a stranger's next try wait; a device that is known has counts of its own."""
    wait = _wait(throttling.sign_in_keys(user.email, throttling.UNKNOWN))
    if wait is not None:
        return _first_factor_waits(user, wait)
    wait = _wait(throttling.second_factor_keys(user.pk))
    return None if wait is None else _second_factor_waits(wait)


def _first_factor_waits(user: User, wait: _Wait) -> Verdict:
    in_trail, networks = _failures(user.pk, Event.SIGN_IN)
    failures = max(in_trail, wait.failures)
    told = f"{failures} {_tries(user)}" + (f" from {networks} networks" if networks > 1 else "")
    if wait.is_end:
        code = Code.LOCKED_OUT
        words = f"Cannot sign in from a new device: {told}. A password reset, or forgiving the failures, ends it."
    else:
        code = Code.MUST_WAIT
        words = f"Must wait until {_time(wait.until)} on a new device: {told}. Forgiving the failures ends it."
    return _verdict(code, words, until=wait.until, failures=failures, networks=networks, more=_NEW_DEVICE)


def _second_factor_waits(wait: _Wait) -> Verdict:
    told = f"{wait.failures} wrong codes"
    if wait.is_end:
        code = Code.SECOND_FACTOR_LOCKED_OUT
        words = f"Locked out by the second factor: {told}. Forgiving the failures ends it. {_STILL_OPEN}"
    else:
        code = Code.SECOND_FACTOR_MUST_WAIT
        words = f"Must wait until {_time(wait.until)}: {told} of the second factor. Forgiving the failures ends it."
    return _verdict(code, words, until=wait.until, failures=wait.failures)


def _wrong_lately(user: User) -> dict[str, Any]:
    """Return what says that the password was wrong again and again, though nobody waits for it now. Two queries."""
    events = _about(user.pk)
    lately = events.filter(pk__gte=first_id_at(clock.now() - _DAY)).order_by("-pk")
    wrong: list[AuditEvent] = []
    for event in lately[:MOST_FAILURES]:
        if event.outcome == Outcome.SUCCESS:
            break
        if event.details.get("reason") in _WRONG:
            wrong.append(event)
    if len(wrong) < TOLD_FROM:
        return {}
    right = events.filter(outcome=Outcome.SUCCESS).order_by("-pk").first()
    what = "right password" if right is not None and right.event == Event.SECOND_FACTOR_ASKED else "sign-in"
    last = f"the last {what} at {_time(right.at)}" if right is not None else "and no sign-in before"
    networks = len({client_network(event.address) for event in wrong if event.address})
    told = f"{len(wrong)} {_tries(user)}" + (f" from {networks} networks" if networks > 1 else "")
    return {
        "failures": len(wrong),
        "networks": networks,
        "more": f"{told} since {_time(wrong[-1].at)}, the latest at {_time(wrong[0].at)}, {last}.",
    }


def _full_networks(user_id: uuid.UUID) -> str:
    """Return which networks of a person's last tries have to wait, because too many failed there. At most 7 queries."""
    tries = _about(user_id).filter(pk__gte=first_id_at(clock.now() - _DAY)).order_by("-pk")
    addresses = tries.values_list("address", flat=True)[:MOST_TRIES]
    lately = {client_network(address): address for address in addresses if address}
    told = []
    for network, address in list(lately.items())[:MOST_NETWORKS]:
        wait_s = throttling.network_wait_s(address)
        if wait_s:
            until = _time(clock.now() + timedelta(seconds=wait_s))
            told.append(f"Tries from {network}, as the last ones were, must wait until {until}: {_TOO_MANY}")
    return " ".join(told)


def _about(user_id: uuid.UUID) -> QuerySet[AuditEvent]:
    """Return a person's tries; the event is checked, not searched by, or SQLite would read everybody's sign-ins."""
    asked: dict[str, Any] = {"checked__in": _RIGHT}
    return AuditEvent.objects.filter(user_id=user_id).alias(checked=Coalesce("event", Value(""))).filter(**asked)


def _tries(user: User) -> str:
    """Return what failed: of somebody without a password no password was wrong, there is none."""
    if user.has_usable_password():
        return "wrong passwords or mailed codes" if settings.IRONAUTH_SIGN_IN_BY_EMAIL else "wrong passwords"
    none = "tries with a password, of which there is none"
    return f"{none}, or with wrong mailed codes" if settings.IRONAUTH_SIGN_IN_BY_EMAIL else none


def _wait(keys: LockoutKeys) -> _Wait | None:
    """Return what makes the next try of these keys wait; None where nothing does."""
    row = ThrottleFailures.objects.filter(key=keys.account.key).first()
    if row is None or row.known_until:
        return None
    if row.failures >= min(keys.account.most, MAX_FAILURES):
        return _Wait(datetime.fromtimestamp(row.expires_at, UTC), is_end=True, failures=row.failures)
    if row.retry_at <= clock.unix():
        return None
    return _Wait(datetime.fromtimestamp(row.retry_at, UTC), is_end=False, failures=row.failures)


def _failures(user_id: uuid.UUID, event: Event) -> tuple[int, int]:
    """Return how many tries failed in the last day, and from how many networks. One query."""
    since = first_id_at(clock.now() - _DAY)
    rows = AuditEvent.objects.filter(user_id=user_id, id__gte=since, event=event, outcome=Outcome.FAILURE)
    found = list(rows.order_by("-id").values_list("address", flat=True)[:MOST_FAILURES])
    return len(found), len({client_network(address) for address in found if address})


def _verdict(code: Code, words: str, **more: Any) -> Verdict:
    return Verdict(can_sign_in=code is Code.CAN_SIGN_IN, code=code, words=words, **more)


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"


def _time(moment: datetime) -> str:
    """Return a time in UTC, with its day where that is another one."""
    same = moment.date() == clock.now().date()
    return f"{moment:%H:%M:%S} UTC" if same else f"{moment:%Y-%m-%d %H:%M} UTC"
