"""What staff can do to people at once, on the list of users and on a person's page."""

import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from django.db.models import F, Q, QuerySet

from accounts import email_address as emails
from accounts.access.rights import CHANGE_USERS, REMOVE_FACTORS
from accounts.acts.change import Change
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.email import units as email_units
from accounts.mfa import factors
from accounts.mfa import units as mfa_units
from accounts.staff import units as staff_units
from accounts.users.models import User
from accounts.verdict import units as verdicts

#: Users in one transaction where each costs several statements: some 20 ms, so that other writers get their turn.
FEW: Final = 20
#: An account that is being deleted has no sessions. Staff can restore it or delete it, and do nothing else to it.
STAYING: Final = Q(pending_deletion=None)


def _update(event: Event, **changes: Any) -> Callable[[Sequence[uuid.UUID], uuid.UUID], None]:
    """Return what changes rows of users and records ``event`` for each."""

    def carry_out(user_ids: Sequence[uuid.UUID], caller_id: uuid.UUID) -> None:
        User.objects.get_queryset().filter(pk__in=user_ids).update(**changes)
        details = {"fields": sorted(changes), **changes} if event is Event.USER_CHANGED else {}
        audit.record_each(event, ((one, None) for one in user_ids), actor_id=caller_id, details=details)

    return carry_out


def _mail(ask: Callable[..., object]) -> Callable[[Sequence[uuid.UUID], uuid.UUID], None]:
    """Return what has each user sent a message, as if they had asked for it themselves."""

    def carry_out(user_ids: Sequence[uuid.UUID], caller_id: uuid.UUID) -> None:
        for email in User.objects.filter(pk__in=user_ids).order_by("pk").values_list("email", flat=True):
            ask(emails.fold(email), actor_id=caller_id)

    return carry_out


def _reset_mfa(user_ids: Sequence[uuid.UUID], caller_id: uuid.UUID) -> None:
    """Take every second factor of these users away."""
    for user_id in user_ids:
        mfa_units.reset(user_id, caller_id)


def _left_without(chosen: QuerySet[User]) -> str:
    """Return how many of these people have no way in but a passkey."""
    count = mfa_units.left_without(chosen).count()
    if not count:
        return ""
    who = "1 of them has" if count == 1 else f"{count} of them have"
    return f"{who} no other way to sign in, and no password: each is sent a link to choose one."


def _forgive(user_ids: Sequence[uuid.UUID], caller_id: uuid.UUID) -> None:
    """Reset the counts of wrong passwords and codes of these users."""
    for user_id in user_ids:
        verdicts.forgive_failures(user_id=user_id, actor_id=caller_id)


SEND_RESET: Final = Change(
    name="send_reset",
    title="Send password reset",
    choice="Send selected users a password reset",
    done="Password reset sent",
    warning="Each gets a message with a link to choose a new password. The present one keeps working until then.",
    excluded_note="superusers, and inactive people",
    right=CHANGE_USERS,
    danger=False,
    carry_out=_mail(email_units.request_reset),
    concerns=Q(is_active=True),
    batch=FEW,
)
RESEND_VERIFICATION: Final = Change(
    name="resend_verification",
    title="Send verification",
    choice="Send selected users a verification of the address",
    done="Verification sent",
    warning="Each gets a message with a link that verifies the address.",
    excluded_note="superusers, and people who are verified or inactive",
    right=CHANGE_USERS,
    danger=False,
    carry_out=_mail(email_units.request_verification),
    concerns=Q(is_active=True, email_verified_at=None),
    batch=FEW,
    step_up=False,  # a message that opens nothing
)
REQUIRE_CHANGE: Final = Change(
    name="require_password_change",
    title="Require password change",
    choice="Require selected users to change the password",
    done="Password change required",
    warning="Every session ends, and nobody can sign in with the current password. Each gets a message with a link to "
    "choose another one.",
    excluded_note="you, superusers, and people who have to change it already or are being deleted",
    right=CHANGE_USERS,
    danger=True,
    carry_out=staff_units.require_password_change,
    concerns=Q(must_change_password=False) & STAYING,
    batch=FEW,
    spares_oneself=True,
)
ACCEPT_PASSWORD: Final = Change(
    name="accept_password",
    title="Accept password again",
    choice="Accept the passwords of selected users again",
    done="The password is accepted again",
    warning="These people need not choose another password: they may sign in with the present one.",
    excluded_note="people with rights you do not hold, who need not change it, or who are being deleted",
    right=CHANGE_USERS,
    danger=False,
    carry_out=_update(Event.USER_CHANGED, must_change_password=False),
    concerns=Q(must_change_password=True) & STAYING,
    takes_over=True,
)
RESET_MFA: Final = Change(
    name="reset_mfa",
    title="Remove second factors",
    choice="Remove the second factors of selected users",
    done="Second factors removed",
    warning="The password alone signs in from then on, until another factor is set up. Every session ends, and each is "
    "told by a message. Make sure that it is the person who asks for it.",
    excluded_note="you, people with rights you do not hold, without a second factor, who are being deleted, or whose "
    "last way in it is and who could not be mailed",
    right=REMOVE_FACTORS,
    danger=True,
    carry_out=_reset_mfa,
    concerns=factors.any_of() & STAYING,  # nobody reads messages to the stand-in address
    batch=FEW,
    spared=mfa_units.nobody_to_tell,
    warning_of=_left_without,
    spares_oneself=True,
    takes_over=True,
)
END_SESSIONS: Final = Change(
    name="end_all_sessions",
    title="End all sessions",
    choice="End all sessions of selected users",
    done="All sessions ended",
    warning="Every session ends, on this site too. Signing in again is possible.",
    excluded_note="superusers, and people who are being deleted",
    right=CHANGE_USERS,
    danger=True,
    carry_out=_update(Event.SESSIONS_ENDED, session_epoch=F("session_epoch") + 1),
    concerns=STAYING,
    step_up=False,  # it only ends what is open
)
FORGIVE_FAILURES: Final = Change(
    name="forgive_failures",
    title="Forgive failures",
    choice="Forgive the failed sign-ins of selected users",
    done="Failures forgiven",
    warning="The next try is let in at once, from anywhere. Counts of client addresses stay.",
    excluded_note="superusers, and people who are being deleted",
    right=CHANGE_USERS,
    danger=False,
    carry_out=_forgive,
    concerns=STAYING,
    batch=FEW,
    step_up=False,  # it opens nothing
)
DEACTIVATE: Final = Change(
    name="deactivate",
    title="Deactivate",
    choice="Deactivate selected users",
    done="Deactivated",
    warning="Every session ends at once. Signing in is impossible until the account is activated again.",
    excluded_note="you, superusers, and people who are inactive",
    right=CHANGE_USERS,
    danger=True,
    carry_out=_update(Event.USER_CHANGED, is_active=False),
    concerns=Q(is_active=True),
    spares_oneself=True,
)
ACTIVATE: Final = Change(
    name="activate",
    title="Activate",
    choice="Activate selected users",
    done="Activated",
    warning="",
    excluded_note="people with rights you do not hold, who are active, or who are being deleted",
    right=CHANGE_USERS,
    danger=False,
    carry_out=_update(Event.USER_CHANGED, is_active=True),
    concerns=Q(is_active=False) & STAYING,  # active under the stand-in address, nobody could sign in
    # Waking up somebody with rights the caller lacks would hand these rights to anybody who knows the new password.
    takes_over=True,
)
#: In the order of the buttons on a person's page.
CHANGES: Final = (
    END_SESSIONS, SEND_RESET, RESEND_VERIFICATION, REQUIRE_CHANGE, ACCEPT_PASSWORD, RESET_MFA, FORGIVE_FAILURES,
    DEACTIVATE, ACTIVATE,
)  # fmt: skip
