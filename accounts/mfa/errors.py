"""What can go wrong with a second factor; codes are part of the HTTP contract."""

from django.utils.translation import gettext_noop as _

from ironauth.infrastructure.core import errors

#: What pages say instead of ``InvalidMfaCode`` where a recovery code was typed: waiting brings no other one.
WRONG_RECOVERY_CODE = _("The recovery code is wrong or was used before: use another one.")


class SecondFactorRefused(errors.NotAuthenticated):
    """401: what was to prove a second factor does not, or was used before."""


class InvalidMfaCode(SecondFactorRefused):
    """401: the code is wrong, too old, used before, or of a factor this person does not have; one body for all."""

    code = "invalid_mfa_code"
    title = "Invalid code"
    detail = _("The code is wrong, has expired or was used before: wait for the next one, or use a recovery code.")


class MfaNotEnabled(errors.Conflict):
    """409: the account has no such factor."""

    code = "mfa_not_enabled"
    title = "Not set up"
    detail = "This account has no such second factor: see GET /api/v1/access/mfa for those it has."
