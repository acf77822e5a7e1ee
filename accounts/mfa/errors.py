"""What can go wrong with a second factor; codes are part of the HTTP contract."""

from django.utils.translation import gettext_noop as _

from ironauth.infrastructure.core import errors


class SecondFactorRefused(errors.NotAuthenticated):
    """401: what was to prove a second factor does not, or was used before."""


class InvalidMfaCode(SecondFactorRefused):
    """401: the code is wrong, too old, used before, or of a factor this person does not have; one body for all."""

    code = "invalid_mfa_code"
    title = "Invalid code"
    detail = _("The code is wrong, has expired or was used before: wait for the next one, or use a recovery code.")


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


class MfaNotEnabled(errors.Conflict):
    """409: the account has no such factor."""

    code = "mfa_not_enabled"
    title = "Not set up"
    detail = "This account has no such second factor: see GET /api/v1/access/mfa for those it has."
