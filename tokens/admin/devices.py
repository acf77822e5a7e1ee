"""Signing in to Django's admin, told like any other sign-in when it is by a device not seen before."""

from django.conf import settings
from django.contrib.auth.signals import user_logged_in
from django.db import transaction

from accounts.users.models import User
from accounts.users.services import account_snapshot
from ironauth.infrastructure.http import client_context
from tokens.sessions import known_devices


def connect() -> None:
    """Connect the receiver; connecting twice is harmless."""
    user_logged_in.connect(_signed_in, dispatch_uid="tokens.admin_devices")


def _signed_in(user: User, **_: object) -> None:
    """Remember what a member of staff signed in with. One query more than ``known_devices.note`` takes."""
    if not settings.IRONAUTH_NEW_DEVICE_MAIL:
        return
    with transaction.atomic():
        account = account_snapshot(user.pk)
        if account is not None:
            known_devices.note(account=account, context=client_context.current())
