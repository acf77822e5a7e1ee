"""What the API accepts about people and roles: plain serializers, no database; every bad field is reported at once."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.translation import gettext
from rest_framework import serializers
from rest_framework.settings import api_settings

from accounts import email_address as emails
from accounts import names
from accounts.fields import EmailField, FlagField, NameField, NewEmailField, PasswordField, TextField
from accounts.passwords.policy import policy_errors
from accounts.profile import validate_zone

#: What the API's description says of the code that people without a password send in its place.
BY_EMAIL_CODE: Final = "In place of the password, where the account has none: a code of `POST /step-up/email`."
CALLED: Final = "What applications may call the person; no way in, and several people may have the same."
MAX_ROLES: Final = 100  # per request; far beyond what a person is given
MAX_ROLE_NAME: Final = 150  # characters; auth.Group.name
# A role name travels in a path and in the comma-separated X-Auth-Roles header: nothing that means something there.
_ROLE_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._:-]*[A-Za-z0-9])?")
_PERMISSION: Final = re.compile(r"[a-z0-9_]{1,100}\.[a-z0-9_]{1,100}")  # app_label.codename


def validate_role_name(name: str) -> None:
    """Refuse a role name that could not stand in a path or a header.

    Raises:
        ValidationError: Django's, with code ``role_name``.
    """
    if len(name) > MAX_ROLE_NAME or not _ROLE_NAME.fullmatch(name):
        raise ValidationError(
            f"A role name has at most {MAX_ROLE_NAME} letters, digits, spaces and . _ : - inside, from A to Z.",
            code="role_name",
        )


class ChoosesPassword(serializers.Serializer[Any]):
    """A body with a new password in ``password_field``: the policy is judged even when other fields are bad."""

    password_field: ClassVar = "password"  # noqa: S105 - the name of a field

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Return the values; raises DRF's ``ValidationError`` with the errors of the fields *and* of the policy."""
        errors: dict[str, Any] = {}
        values: dict[str, Any] = {}
        try:
            values = super().to_internal_value(data)
        except serializers.ValidationError as error:
            if not isinstance(error.detail, dict) or api_settings.NON_FIELD_ERRORS_KEY in error.detail:
                raise
            errors = dict(error.detail)
        field = self.password_field
        password = data.get(field) if isinstance(data, Mapping) else None
        if isinstance(password, str) and field not in errors:
            # Fields that are wrong themselves still count, unless they are too long to be looked at (names, emails).
            person = {
                name: data[name]
                for name, longest in (("email", emails.MAX_LENGTH), ("name", names.MAX_LENGTH))
                if isinstance(data.get(name), str) and len(data[name]) <= longest
            }
            if reasons := policy_errors(password, **person):
                errors[field] = [serializers.ErrorDetail(reason.message, reason.code) for reason in reasons]
        if errors:
            raise serializers.ValidationError(errors)
        return values


class SignupInput(ChoosesPassword):
    """Body of ``POST /signup``."""

    email = NewEmailField()
    password = PasswordField()
    name = NameField(required=False, default="")
    terms_version = TextField(
        required=False,
        default="",
        allow_blank=True,
        help_text="The version of the terms that the person has accepted, where this server asks for one.",
    )
    invitation = TextField(
        required=False,
        help_text="The token of an invitation's link, which is to this address: the account counts as verified then.",
    )


class EmailInput(serializers.Serializer[Any]):
    """Body of ``POST /password/reset`` and ``/email/verify/resend``."""

    email = EmailField()


class ResetPasswordInput(serializers.Serializer[Any]):
    """Body of ``POST /password/reset/confirm``; the policy is judged once it is known whose token this is."""

    token = TextField()
    new_password = PasswordField()


class EmailTokenInput(serializers.Serializer[Any]):
    """Body of ``POST /me/restore``."""

    token = TextField()


class VerifyEmailInput(EmailTokenInput):
    """Body of ``POST /email/verify``; without more than the token an account of an unproved address starts clean."""

    password = PasswordField(
        required=False,
        allow_blank=True,
        help_text="The account's password, which shows that the account is yours: nothing of it changes then.",
    )
    code = TextField(
        required=False,
        allow_blank=True,
        help_text="A code of its second factor, or a recovery code, where the account has one.",
    )
    new_password = PasswordField(
        required=False,
        allow_blank=True,
        help_text=(
            "A password to start clean with, in place of the other two: sessions, second factors and consents of "
            "before end. Only while nobody has proved the account's address."
        ),
    )


class ChangeEmailInput(serializers.Serializer[Any]):
    """Body of ``POST /email``."""

    new_email = NewEmailField()
    password = PasswordField(required=False)
    email_code = TextField(required=False, help_text=BY_EMAIL_CODE)


class ZoneField(TextField):
    """A time zone of the IANA database; may be blank."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("help_text", "A time zone of the IANA database, such as Europe/Berlin.")
        super().__init__(allow_blank=True, normalise=str.strip, validate=validate_zone, **options)


class ProfileInput(serializers.Serializer[Any]):
    """Body of ``PATCH /me``: what is absent stays."""

    name = NameField(required=False)
    preferred_username = NameField(required=False, help_text=CALLED)
    given_name = NameField(required=False)
    family_name = NameField(required=False)
    zoneinfo = ZoneField(required=False)


def validate_language(code: str) -> None:
    """Refuse a language that pages do not speak; "" is the browser's.

    Raises:
        ValidationError: Django's, with code ``language``.
    """
    codes = [known for known, _ in settings.LANGUAGES]
    if code and code not in codes:
        message = gettext("Send one of {codes}, or nothing for the browser's.").format(codes=", ".join(codes))
        raise ValidationError(message, code="language")


class LanguageInput(serializers.Serializer[Any]):
    """Body of ``PUT /me/language``."""

    language = TextField(allow_blank=True, validate=validate_language)


class DeleteAccountInput(serializers.Serializer[Any]):
    """Body of ``DELETE /me``."""

    password = PasswordField(required=False)
    email_code = TextField(required=False, help_text=BY_EMAIL_CODE)


class RolesField(serializers.ListField):
    """The names of roles."""

    def __init__(self, **options: Any) -> None:
        super().__init__(child=TextField(), max_length=MAX_ROLES, **options)


class UserCreateInput(ChoosesPassword):
    """Body of ``POST /users``; without a password the person cannot sign in until one is set."""

    email = NewEmailField()
    password = PasswordField(required=False, allow_null=True, default=None)
    name = NameField(required=False, default="")
    preferred_username = NameField(required=False, default="", help_text=CALLED)
    given_name = NameField(required=False, default="")
    family_name = NameField(required=False, default="")
    zoneinfo = ZoneField(required=False, default="")
    is_active = FlagField(required=False, default=True)
    is_staff = FlagField(required=False, default=False)
    is_superuser = FlagField(required=False, default=False)
    email_verified = FlagField(required=False, default=False)
    roles = RolesField(required=False, default=list)


class UserPatchInput(serializers.Serializer[Any]):
    """Body of ``PATCH /users/{id}``: what is absent stays; ``roles`` replaces all of them."""

    email = NewEmailField(required=False)
    name = NameField(required=False)
    preferred_username = NameField(required=False, help_text=CALLED)
    given_name = NameField(required=False)
    family_name = NameField(required=False)
    zoneinfo = ZoneField(required=False)
    is_active = FlagField(required=False)
    is_staff = FlagField(required=False)
    is_superuser = FlagField(required=False)
    email_verified = FlagField(required=False)
    roles = RolesField(required=False)


class PermissionField(TextField):
    """A Django permission, ``app_label.codename``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(validate=self._check, **options)

    @staticmethod
    def _check(name: str) -> None:
        if not _PERMISSION.fullmatch(name):
            raise ValidationError(
                "Write a permission as app_label.codename, e.g. accounts.view_user.", code="permission"
            )


class RoleCreateInput(serializers.Serializer[Any]):
    """Body of ``POST /roles``."""

    name = TextField(normalise=str.strip, validate=validate_role_name)
    permissions = serializers.ListField(child=PermissionField(), required=False, default=list, max_length=1000)


class RolePatchInput(serializers.Serializer[Any]):
    """Body of ``PATCH /roles/{role}``: what is absent stays; ``permissions`` replaces all of them."""

    name = TextField(required=False, normalise=str.strip, validate=validate_role_name)
    permissions = serializers.ListField(child=PermissionField(), required=False, max_length=1000)
