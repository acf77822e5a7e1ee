"""What can go wrong with a second factor; codes are part of the HTTP contract."""

from ironauth.infrastructure import errors


class SecondFactorRefused(errors.NotAuthenticated):
    """401: what was to prove a second factor does not, or was used before."""


class InvalidMfaCode(SecondFactorRefused):
    """401: the code is wrong, too old, used before, or of a factor this person does not have; one body for all."""

    code = "invalid_mfa_code"
    title = "Invalid code"
    detail = "The code is wrong, has expired or was used before: wait for the next one, or use a recovery code."


class MfaAlreadyEnabled(errors.Conflict):
    """409: one-time codes are set up; a second app needs the first one removed."""

    code = "mfa_already_enabled"
    title = "Already set up"
    detail = "One-time codes are set up already: remove them first to use another app."


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
