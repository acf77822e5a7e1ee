"""What can go wrong with one-time codes alone; codes are part of the HTTP contract."""

from django.utils.translation import gettext_noop as _

from ironauth.infrastructure.core import errors


class TotpUnreadable(errors.Unavailable):
    """503: the app's secret does not open, for its master key has left the settings; nothing was judged or counted."""

    code = "totp_unreadable"
    title = "Codes cannot be checked"
    detail = _(
        "Codes of your app cannot be checked at the moment: use a recovery code or a passkey, or try again later."
    )
    default_retry_after_s = 60  # what is missing is put back by people


class MfaAlreadyEnabled(errors.Conflict):
    """409: one-time codes are set up; a second app needs the first one removed."""

    code = "mfa_already_enabled"
    title = "Already set up"
    detail = _("One-time codes are set up already: remove them first to use another app.")


class MfaNotStarted(errors.Conflict):
    """409: there is no secret that waits to be confirmed."""

    code = "mfa_not_started"
    title = "Nothing to confirm"
    detail = "There is nothing to confirm: ask for a new secret first (POST /api/v1/access/mfa/totp)."
