"""Signing in to the admin in two steps: the password, then a second factor, for those who have or need one.

Between the two steps nobody is signed in. The browser's session holds whose password was right, under a key that
Django's pages never read. So no page, present or future, opens after the first step alone.
"""

from __future__ import annotations

import uuid
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.contrib.auth import login, logout
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db import transaction
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare

from accounts import email_address as emails
from accounts.audit import recording as audit
from accounts.audit.recording import Event, Outcome
from accounts.lockout import throttling
from accounts.users import queries as user_queries
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http import client_context

#: Seconds in which the second step has to follow: enough to find a phone, too short to leave a desk.
CODE_S: Final = 300
#: The same for people who have to install an app first.
ENROL_S: Final = 900
_FIRST_STEP: Final = "ironauth_half_signed_in"
_PROVED: Final = "ironauth_second_factor"
#: In a session: when a second factor was proved in it, unix seconds (``step_up``).
FACTOR_AT: Final = "ironauth_factor_at"


class PendingSignIn(NamedTuple):
    """Somebody whose password was right, and who is not signed in.

    ``setup``: the secret they are about to set up, sealed, with the id of its master key; None with a factor.
    """

    user: User
    next_url: str
    setup: tuple[str, bytes] | None


def needs_more(methods: tuple[str, ...]) -> bool:
    """Tell whether the password of somebody who has these second factors opens nothing yet."""
    return bool(methods) or settings.IRONAUTH_STAFF_MFA == "required"


def may_enter(request: HttpRequest) -> bool:
    """Tell whether a session of staff is one that opens pages: where second factors are required, one was proved."""
    return settings.IRONAUTH_STAFF_MFA != "required" or bool(request.session.get(_PROVED))


def sign_out(request: HttpRequest) -> None:
    """Replace the browser's session by a new one. The person before is signed out.

    Django's ``login`` drops the session of somebody else and tells nobody.
    """
    logout(request)


def begin(request: HttpRequest, user: Any, next_url: str, *, setup: tuple[str, bytes] | None = None) -> None:
    """Remember in a new session that the password was right, and sign out the person who used this browser.

    A raised epoch and a new password end this state, as they end a session.

    Args:
        request: Its session is replaced by a new one.
        user: Whose password was right, with the ``backend`` that judged it.
        next_url: Where to go once the second factor is proved; judged by the caller.
        setup: The master key's id and the sealed TOTP secret, for somebody who has to set up a factor first.
    """
    sign_out(request)
    request.session[_FIRST_STEP] = {
        "user": str(user.pk),
        "backend": user.backend,
        "hash": user.get_session_auth_hash(),
        "at": clock.unix(),
        "next": next_url,
        "setup": [setup[0], setup[1].hex()] if setup else None,
    }


def first_step(request: HttpRequest, *, enrolling: bool) -> PendingSignIn | None:
    """Return who has given the right password and has a second step to take; None when it is too late. One query.

    Args:
        request: Its session holds the state that ``begin`` left.
        enrolling: Whether somebody is wanted who sets up a factor, instead of proving one.
    """
    state: Any = request.session.get(_FIRST_STEP)
    if not state or (state["setup"] is not None) != enrolling:
        return None
    if abs(clock.unix() - state["at"]) >= (ENROL_S if enrolling else CODE_S):
        return None
    may = User.objects.filter(is_active=True, is_staff=True, must_change_password=False)
    user = may.filter(pk=uuid.UUID(state["user"])).first()
    if user is None or not constant_time_compare(user.get_session_auth_hash(), state["hash"]):
        return None
    user.backend = state["backend"]  # how Django's login() is told
    setup = state["setup"]
    return PendingSignIn(user, state["next"], (setup[0], bytes.fromhex(setup[1])) if setup else None)


def complete(request: HttpRequest, pending: PendingSignIn) -> None:
    """Sign in under a new session key; the address is known from now on, and earlier failures are forgiven.

    Args:
        request: Its session is signed in.
        pending: Who has proved both factors.
    """
    with transaction.atomic():
        throttling.succeeded_in_full(email=pending.user.email, context=client_context.context_of(request))
    del request.session[_FIRST_STEP]
    login(request, pending.user)
    request.session[_PROVED] = True
    request.session[FACTOR_AT] = int(clock.unix())


# ------------------------------------------------------------------ the trail, which Django tells by signals alone
def connect() -> None:
    """Connect the receivers; connecting twice is harmless."""
    user_logged_in.connect(_signed_in, dispatch_uid="accounts.audit_signed_in")
    user_logged_out.connect(_signed_out, dispatch_uid="accounts.audit_signed_out")
    user_login_failed.connect(_refused, dispatch_uid="accounts.audit_refused")


def _signed_in(user: User, **_: object) -> None:
    """Record who came in."""
    audit.record(Event.ADMIN_SIGN_IN, actor_id=user.pk, user_id=user.pk)


def _signed_out(user: User | None, **_: object) -> None:
    """Record who went out; nobody, where the session was over already."""
    if user is not None:
        audit.record(Event.ADMIN_SIGN_OUT, actor_id=user.pk, user_id=user.pk)


def _refused(credentials: dict[str, Any], **_: object) -> None:
    """Record a wrong password, unknown address, or inactive account: one query and one insert for each of them."""
    found = user_queries.credentials_of_email(emails.lookup_key(str(credentials.get("username") or "")))
    audit.record(Event.ADMIN_SIGN_IN, outcome=Outcome.FAILURE, user_id=found.id if found else None)
