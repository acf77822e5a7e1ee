"""What the API accepts about tokens: plain DRF serializers, no ORM inside."""

from typing import Any

from rest_framework import serializers

from accounts.fields import ChoiceField, PasswordField, TextField
from accounts.mfa.passkeys.inputs import CredentialField, FactorInput
from accounts.users.inputs import ChoosesPassword

TRANSPORTS = ["body", "cookie"]


class SignInInput(serializers.Serializer[Any]):
    """JSON body of ``POST /signin``; ``transport`` says how the tokens are handed over."""

    email = TextField()
    password = PasswordField()
    transport = ChoiceField(choices=TRANSPORTS, default="body")


class SignInForm(serializers.Serializer[Any]):
    """The same from an HTML form, under the names of OAuth 2.0's and every browser's password form."""

    username = TextField(
        error_messages={"required": "This field is required. A form calls the address username; JSON calls it email."}
    )
    password = PasswordField()
    transport = ChoiceField(choices=TRANSPORTS, default="cookie")


class SignInMfaInput(FactorInput):
    """Body of ``POST /signin/mfa``: what ``mfa_required`` gave, and a code or a passkey's answer."""

    mfa_token = TextField()
    transport = ChoiceField(choices=TRANSPORTS, default="body")


class MfaTokenInput(serializers.Serializer[Any]):
    """Body of ``POST /signin/mfa/options``."""

    mfa_token = TextField()


class PasskeySignInInput(serializers.Serializer[Any]):
    """Body of ``POST /signin/passkey``."""

    challenge_token = TextField()
    credential = CredentialField()
    transport = ChoiceField(choices=TRANSPORTS, default="body")


class EmailCodeInput(serializers.Serializer[Any]):
    """Body of ``POST /signin/email/confirm``: the address, the code, and what asking for the code gave."""

    email = TextField()
    code = TextField()
    code_token = TextField()
    transport = ChoiceField(choices=TRANSPORTS, default="body")


class StepUpInput(FactorInput):
    """Body of ``POST /step-up``: a second factor's code or answer where the caller has one, else the password.

    ``email_code`` where the caller has neither, or in place of the password where people sign in by e-mail.
    """

    password = PasswordField(required=False)
    email_code = TextField(
        required=False,
        help_text="In place of the password, where the account has none or people sign in by e-mail: a code of "
        "`POST /step-up/email`.",
    )


class RefreshTokenInput(serializers.Serializer[Any]):
    """Body of ``POST /logout``, and a part of ``/refresh``: a refresh token, left out when a cookie brings it."""

    refresh_token = TextField(required=False, allow_null=True)


class RefreshInput(RefreshTokenInput):
    """Body of ``POST /refresh``; ``organization`` says for which one the session acts from now on."""

    organization = TextField(
        required=False,
        allow_null=True,
        allow_blank=True,
        help_text="The id or slug of an organization of the caller, which the tokens name from now on; empty for none. "
        "Left out, the session keeps what it has.",
    )


class ChangePasswordInput(ChoosesPassword):
    """Body of ``POST /password``: the present password and the one that replaces it, exactly as typed."""

    password_field = "new_password"  # noqa: S105 - the name of a field

    current_password = PasswordField()
    new_password = PasswordField()
