"""The check that messages reach somebody: a warning in the log and in ``check --deploy``, which refuses no start."""

from typing import Any, Final

from django.conf import settings
from django.core.checks import CheckMessage
from django.core.checks import Warning as CheckWarning

from ironauth.config import mail as setting_mail
from ironauth.infrastructure.telemetry.logs import get_logger

NO_MAIL: Final = (
    "EMAIL_URL names no mail server, so nobody receives messages: a forgotten password cannot be replaced, no owner "
    "hears of a change, and no address is proved."
)
REMEDY: Final = "set EMAIL_URL=smtp+tls://user:password@host:587 (deploy/env.example)"


def warn_of_no_mail() -> None:
    """Log a warning where messages reach nobody."""
    if not _mail_goes_out():
        get_logger().warning("mail_reaches_nobody", effect=NO_MAIL, remedy=REMEDY)


def check_mail(**_: Any) -> list[CheckMessage]:
    """Return the same as a result of Django's deployment check."""
    return [] if _mail_goes_out() else [CheckWarning(NO_MAIL, hint=f"{REMEDY}.", id="ironauth.W001")]


def _mail_goes_out() -> bool:
    return setting_mail.names_server(settings.MAILERS["default"])
