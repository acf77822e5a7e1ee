"""Forms of the admin: the same address, name, role and password rules as the API's, and a friendly "busy"."""

import time
import uuid
from typing import TYPE_CHECKING, Any, ClassVar

from asgiref.sync import async_to_sync
from django import forms
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.admin.forms import AdminPasswordChangeForm as DjangoOwnPasswordForm
from django.contrib.auth.forms import (
    AdminPasswordChangeForm,
    AdminUserCreationForm,
    ReadOnlyPasswordHashField,
    ReadOnlyPasswordHashWidget,
    SetUnusablePasswordMixin,
    UserChangeForm,
)
from django.contrib.auth.signals import user_login_failed
from django.core.exceptions import ValidationError
from django.db import transaction

from accounts import email_address as emails
from accounts.audit import recording as audit
from accounts.errors import InvalidCredentials, LastSuperuser, PasswordChangeRequired
from accounts.lockout import throttling
from accounts.outbox import queue as outbox
from accounts.outbox.kinds import Kind
from accounts.passwords import breached as breached_passwords
from accounts.passwords import formats
from accounts.users import queries as user_queries
from accounts.users import rules, units
from accounts.users.models import User
from accounts.users.password_method import PasswordMethod
from accounts.users.proofs import Evidence, ProofRequest
from ironauth.infrastructure.core.constant_time import REFUSAL_STEP_S, wait_for_step_blocking
from ironauth.infrastructure.core.durations import in_words
from ironauth.infrastructure.core.errors import Overloaded, Throttled
from ironauth.infrastructure.hashing import claims as hash_claims
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.http import client_context

if TYPE_CHECKING:  # Django's classes take their model in brackets for type checkers only
    ModelForm = forms.ModelForm[Any]
    UserModelForm = forms.ModelForm[User]
    AddForm = AdminUserCreationForm[User]
    ChangeForm = UserChangeForm[User]
    SetUserPasswordForm = AdminPasswordChangeForm[User]
    MaybePassword = SetUnusablePasswordMixin[User]
else:
    ModelForm = UserModelForm = forms.ModelForm
    AddForm, ChangeForm = AdminUserCreationForm, UserChangeForm
    SetUserPasswordForm, MaybePassword = AdminPasswordChangeForm, SetUnusablePasswordMixin

_NO_PASSWORD = "If disabled, nobody can sign in to this account with a password until one is set."  # noqa: S105 - a help text
_WARNING = (
    '<ul id="id_unusable_warning" class="messagelist"><li class="warning">The current password will be lost.</li></ul>'
)


def busy(refused: Overloaded) -> ValidationError:
    """Return the full hash pool as an error of a form."""
    return ValidationError(f"The server is busy. Try again in {refused.retry_after_s} s.", code=refused.code)


def too_many(refused: Throttled, remedy: str = "") -> ValidationError:
    """Return a count that is full as an error of a form.

    Args:
        refused: Says how long to wait.
        remedy: What else helps than to wait.
    """
    return ValidationError(
        f"Too many attempts. Try again in {in_words(refused.retry_after_s or 1)}{remedy}.",
        code=refused.code,
    )


def is_own_password(user: User, password: str, event: audit.Event) -> bool:
    """Tell whether this is the password of the person who is signed in, judged and counted as the API does.

    Args:
        user: Who it is.
        password: As it was typed.
        event: What is left as failed in the trail by a wrong one.

    Raises:
        ValidationError: The hash pool is full, or there were too many tries.
    """
    found = user_queries.credentials_of_id(user.pk)
    if found is None:
        return False
    try:
        async_to_sync(PasswordMethod().judge)(found, Evidence(password=password), ProofRequest(user.pk, event))
    except Throttled as refused:
        raise too_many(refused) from refused
    except Overloaded as refused:
        raise busy(refused) from refused
    except InvalidCredentials:
        return False
    return True


class StaffSignInForm(AdminAuthenticationForm):
    """Sign-in by e-mail address. Unlike Django's, it does not put the login through NFKC (``emails``).

    ``methods``: the second factors of the person, once it is valid.
    """

    methods: tuple[str, ...] = ()

    error_messages = {
        **AdminAuthenticationForm.error_messages,
        "invalid_login": "Please enter the correct e-mail address and password for a staff account. "
        "Upper and lower case matter in the password only.",
    }
    username = forms.CharField(
        label="E-mail address",
        max_length=emails.MAX_LENGTH,
        widget=forms.TextInput(attrs={"autofocus": True, "autocapitalize": "none", "autocomplete": "username"}),
    )
    # Refused before hashing, and alike for every address.
    password = forms.CharField(
        label="Password",
        strip=False,
        max_length=formats.MAX_LENGTH,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )

    def clean(self) -> dict[str, Any]:
        """Check the password on the hash pool, unless the account or the client has failed too often.

        The counts are the API's, and so are the even times at which a wrong password's refusal leaves. A full pool is
        said before anything is looked up, not shown as a server error; so are too many attempts.
        """
        began = time.monotonic_ns()
        if not (self.cleaned_data.get("username") and self.cleaned_data.get("password")):
            return super().clean()
        typed = self.cleaned_data["username"]
        with hash_claims.named(emails.lookup_key(typed) or typed):
            return self._judged(began)

    def _judged(self, began: int) -> dict[str, Any]:
        """Return what Django makes of the address and password; a right pair is not counted as a failure."""
        try:
            hash_pool().require_capacity()
        except Overloaded as refused:
            raise busy(refused) from refused
        attempt = self._admitted()
        try:
            data = super().clean()
        except Overloaded as refused:
            async_to_sync(throttling.give_back)(attempt)
            raise busy(refused) from refused
        except ValidationError:
            wait_for_step_blocking(began, REFUSAL_STEP_S)
            raise
        found = user_queries.credentials_of_id(self.get_user().pk)
        self.methods = found.methods if found else ()
        if self.methods:  # half of what is needed resets nothing
            async_to_sync(throttling.give_back)(attempt)
        else:
            async_to_sync(throttling.succeeded)(attempt)
        if found is not None and found.password_flagged_at is None:
            self._flag_breached(found)
        return data

    def _flag_breached(self, found: user_queries.Credentials) -> None:
        """Note a password that is in the list of breached ones, as the API's sign-in does."""
        if breached_passwords.is_breached(self.cleaned_data["password"]):
            with transaction.atomic():
                units.flag_password(found)

    def _admitted(self) -> throttling.Attempt | None:
        """Return the try, let in. Raises ``ValidationError`` with the remedy after too many."""
        context = client_context.context_of(self.request) if self.request is not None else throttling.UNKNOWN
        try:
            return async_to_sync(throttling.admit_sign_in)(email=self.cleaned_data["username"], context=context)
        except Throttled as refused:
            remedy = ", or from a device on which you have signed in within the last 30 days"
            raise too_many(refused, remedy) from refused

    def confirm_login_allowed(self, user: Any) -> None:
        """Let in the staff that the API's sign-in lets in; record a right password that was refused.

        While the address has still to be proved, a right password is a wrong one, in the trail too.
        """
        if emails.is_proof_awaited(user.email_verified_at):
            user_login_failed.send(sender=__name__, credentials={"username": user.email}, request=self.request)
            raise self.get_invalid_login_error()
        reason = ""
        try:
            super().confirm_login_allowed(user)
            if user.must_change_password:
                reason = PasswordChangeRequired.code
                raise ValidationError(PasswordChangeRequired.detail, code=reason)
        except ValidationError:
            audit.record(
                audit.Event.ADMIN_SIGN_IN,
                outcome=audit.Outcome.REFUSED,
                actor_id=user.pk,
                user_id=user.pk,
                details={"reason": reason} if reason else {},
            )
            raise


class _ChoosesPassword(MaybePassword):
    """Hashes while the form is judged, so that a full pool is one more error and what was typed stays.

    Reasons stand beside the password, not beside its repetition as in Django's forms.
    """

    def validate_password_for_user(self, user: User, *names: str, **named: str) -> None:
        """Judge the password and, when everything is right, put its hash on ``user``."""
        (repetition,) = names or named.values() or ("password2",)
        field = repetition.replace("2", "1")
        super().validate_password_for_user(user, password_field_name=field)
        form: Any = self
        if form.errors or not form.cleaned_data.get("set_usable_password", True):
            return
        try:
            user.set_password(form.cleaned_data[field])
        except Overloaded as refused:
            form.add_error(field, busy(refused))

    def set_password_and_save(self, user: User, *_field: Any, commit: bool = True, **kwargs: Any) -> User:
        """Save ``user``, whose password was set by the validation, record it, and have the person told."""
        form: Any = self
        if not form.cleaned_data.get("set_usable_password", True):
            super().set_password_and_save(user, commit=False, **kwargs)
        if commit:
            with transaction.atomic():
                user.save()
                outbox.enqueue(Kind.PASSWORD_CHANGED, recipient=user.email, user_id=user.pk)
                audit.record(audit.Event.PASSWORD_CHANGED, actor_id=client_context.admin_user_id(), user_id=user.pk)
        return user


class SetPasswordForm(_ChoosesPassword, SetUserPasswordForm):
    """Staff set, or take away, another person's password."""

    usable_password_help_text = _NO_PASSWORD + _WARNING


class OwnPasswordForm(_ChoosesPassword, DjangoOwnPasswordForm):
    """Staff change their own password."""

    def clean_old_password(self) -> str:
        """Check the old password; a full pool and too many tries are said, not shown as a server error."""
        old: str = self.cleaned_data["old_password"]
        if not is_own_password(self.user, old, audit.Event.PASSWORD_CHANGED):
            raise ValidationError(self.error_messages["password_incorrect"], code="password_incorrect")
        return old


class _UniqueAddress(UserModelForm):
    """Adds to a form of users that the *folded* address must be free."""

    def clean_email(self) -> str:
        """Return the address in its stored form; refuses one that another account has, whatever its case."""
        email = emails.normalise(self.cleaned_data["email"])
        if email != self.initial.get("email"):
            emails.validate_new(email)
        if User.objects.filter(email_key=emails.fold(email)).exclude(pk=self.instance.pk).exists():
            raise ValidationError("An account with this e-mail address exists already.", code="unique")
        return email


class UserAddForm(_UniqueAddress, _ChoosesPassword, AddForm):
    """A new user: address, name, and a password or none. Rights and roles are given on the next page."""

    usable_password = SetUnusablePasswordMixin.create_usable_password_field(help_text=_NO_PASSWORD)

    class Meta:
        """Which fields."""

        model = User
        fields = ("email", "name")


class KeepsUnseen(ModelForm):
    """Saving takes nothing away that a field does not offer: the caller cannot have meant what was not shown."""

    def clean(self) -> dict[str, Any]:
        """Add to each choice what the row has outside the choices."""
        data = super().clean() or self.cleaned_data
        for name, field in self.fields.items():
            saved = not self.instance._state.adding  # noqa: SLF001 - documented by Django
            if isinstance(field, forms.ModelMultipleChoiceField) and name in data and saved:
                offered: Any = field.queryset
                data[name] = [*data[name], *getattr(self.instance, name).exclude(pk__in=offered.values("pk"))]
        return data


class _PasswordWidget(ReadOnlyPasswordHashWidget):
    """The way to another password; nothing of the hash, its parameters neither."""

    template_name = "admin/password_state.html"


class UserEditForm(KeepsUnseen, _UniqueAddress, ChangeForm):
    """Everything about a user; refuses to disable the last superuser or oneself."""

    password = ReadOnlyPasswordHashField(label="Password", widget=_PasswordWidget)
    caller_id: ClassVar[uuid.UUID | None] = None  # set by the admin on the class it makes for a request

    class Meta:
        """Which fields."""

        model = User
        fields = "__all__"  # the admin's fieldsets say which

    def clean(self) -> dict[str, Any]:
        """Refuse a change that would leave nobody to run the system, or lock its author out."""
        data = super().clean()
        active = data.get("is_active", True)
        if not (active and data.get("is_superuser", self.instance.is_superuser)):
            try:
                with transaction.atomic():
                    rules.keep_a_superuser(without=[self.instance])
            except LastSuperuser as refused:
                raise ValidationError(refused.detail, code=refused.code) from refused
        if not active and self.instance.pk == self.caller_id:
            raise ValidationError(
                {"is_active": ValidationError("You would lock yourself out: ask a colleague to do it.", code="oneself")}
            )
        return data
