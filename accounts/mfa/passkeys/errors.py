"""What can go wrong with a passkey; codes are part of the HTTP contract."""

from django.utils.translation import gettext_noop as _

from accounts.mfa.errors import SecondFactorRefused
from ironauth.infrastructure.core import errors


class InvalidPasskey(SecondFactorRefused):
    """401: unknown, another person's, wrongly signed, for another site, too late or used before; one body for all."""

    code = "invalid_passkey"
    title = "Invalid passkey"
    detail = _("The passkey was not accepted: try again, or sign in another way.")


class PasskeyNotMade(errors.BadRequest):
    """400: the authenticator's answer does not make a passkey, or its challenge is too old or was used before."""

    code = "passkey_not_made"
    title = "Passkey not added"
    detail = "The authenticator's answer was not accepted: ask for new options and try again."


class PasskeyTaken(errors.Conflict):
    """409: this very credential is registered."""

    code = "passkey_taken"
    title = "Passkey exists"
    detail = _("This passkey is registered already.")


class TooManyPasskeys(errors.Conflict):
    """409: the person has as many as one may have."""

    code = "too_many_passkeys"
    title = "Too many passkeys"
    detail = _("You have as many passkeys as one may have: remove one first.")
