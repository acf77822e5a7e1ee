"""Signing in to and out of Django's admin, which Django tells by signals alone."""

from typing import Any

from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed

from accounts import email_address as emails
from accounts.audit import recording as audit
from accounts.audit.recording import Event, Outcome
from accounts.users import units
from accounts.users.models import User


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
    found = units.credentials_of_email(emails.lookup_key(str(credentials.get("username") or "")))
    audit.record(Event.ADMIN_SIGN_IN, outcome=Outcome.FAILURE, user_id=found.id if found else None)
