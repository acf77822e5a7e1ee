"""What the API accepts about tokens: plain DRF serializers, no ORM inside."""

from typing import Any

from rest_framework import serializers

from accounts.fields import PasswordField, TextField
from accounts.inputs import ChoosesPassword
from accounts.mfa.inputs import CodeField

TRANSPORTS = ["body", "cookie"]


class SignInInput(serializers.Serializer[Any]):
    """JSON body of ``POST /signin``; ``transport`` says how the tokens are handed over."""

    email = TextField()
    password = PasswordField()
    transport = serializers.ChoiceField(choices=TRANSPORTS, default="body")


class SignInForm(serializers.Serializer[Any]):
    """The same from an HTML form, under the names of OAuth 2.0's and every browser's password form."""

    username = TextField()
    password = PasswordField()
    transport = serializers.ChoiceField(choices=TRANSPORTS, default="cookie")


class SignInMfaInput(serializers.Serializer[Any]):
    """Body of ``POST /signin/mfa``: what ``mfa_required`` gave, and a code from an app or a recovery code."""

    mfa_token = TextField()
    code = CodeField()
    transport = serializers.ChoiceField(choices=TRANSPORTS, default="body")


class StepUpInput(serializers.Serializer[Any]):
    """Body of ``POST /step-up``: the code where the caller has a second factor, else the password."""

    password = PasswordField(required=False)
    code = CodeField(required=False)


class RefreshTokenInput(serializers.Serializer[Any]):
    """Body of ``POST /refresh`` and ``/logout``: a refresh token, left out when a cookie brings it."""

    refresh_token = TextField(required=False, allow_null=True)


class ChangePasswordInput(ChoosesPassword):
    """Body of ``POST /password``: the present password and the one that replaces it, exactly as typed."""

    password_field = "new_password"  # noqa: S105 - the name of a field

    current_password = PasswordField()
    new_password = PasswordField()
