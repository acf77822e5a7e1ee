"""What the tests of the admin's second step share: its pages, the first form, and somebody with an app."""

from typing import Any

import pyotp
from asgiref.sync import async_to_sync
from django.test import Client

from accounts.audit.models import AuditEvent
from accounts.conftest import PASSWORD
from accounts.mfa.totp import services as totp_services
from accounts.mfa.totp.models import TotpFactor
from accounts.users.models import User
from ironauth.infrastructure.core import clock

LOGIN, CODE, SET_UP = "/admin/login/", "/admin/login/code/", "/admin/login/set-up/"
USERS = "/admin/accounts/user/"


class Enrolled:
    """Somebody with an app and recovery codes."""

    def __init__(self, user: User) -> None:
        setup = async_to_sync(totp_services.start_totp)(user_id=user.pk)
        self.app = pyotp.TOTP(setup.secret)
        self.codes = async_to_sync(totp_services.confirm_totp)(user_id=user.pk, code=self.code()).recovery_codes
        TotpFactor.objects.update(last_step=0)  # as if it had been set up long ago

    def code(self) -> str:
        return self.app.at(int(clock.unix()))


def password(browser: Client, user: User, **more: str) -> Any:
    """Fill in the first form."""
    return browser.post(LOGIN, {"username": user.email, "password": PASSWORD, "next": USERS, **more})


def signed_in(user: User) -> Client:
    """Return a browser that is signed in to the admin by password and app."""
    app, browser = Enrolled(user), Client()
    password(browser, user)
    assert browser.post(CODE, {"code": app.code()}).status_code == 302
    return browser


def opens(browser: Client) -> bool:
    """Tell whether a page of the admin is shown."""
    return browser.get(USERS).status_code == 200


def acts() -> list[tuple[str, str]]:
    """Return what the trail says of signing in to the admin."""
    rows = AuditEvent.objects.filter(event__startswith="admin_sign").order_by("id")
    return list(rows.values_list("event", "outcome"))
