"""Forms of the admin: the same address, name, role and password rules as the API's, and a friendly "busy"."""

from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.forms import AdminUserCreationForm, UserChangeForm
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import transaction

from accounts import emails, passwords, units
from accounts.errors import LastSuperuser
from accounts.inputs import validate_role_name
from accounts.models import User
from ironauth.infrastructure.errors import Overloaded

if TYPE_CHECKING:  # Django's classes take their model in brackets for type checkers only
    UserModelForm = forms.ModelForm[User]
    AddForm = AdminUserCreationForm[User]
    ChangeForm = UserChangeForm[User]
    GroupModelForm = forms.ModelForm[Group]
else:
    UserModelForm = GroupModelForm = forms.ModelForm
    AddForm, ChangeForm = AdminUserCreationForm, UserChangeForm


class StaffSignInForm(AdminAuthenticationForm):
    """Sign-in by e-mail address. Unlike Django's, it does not put the login through NFKC (``emails``)."""

    username = forms.CharField(
        label="E-mail address",
        max_length=emails.MAX_LENGTH,
        widget=forms.TextInput(attrs={"autofocus": True, "autocapitalize": "none", "autocomplete": "username"}),
    )
    # Refused before hashing, and alike for every address.
    password = forms.CharField(
        label="Password",
        strip=False,
        max_length=passwords.MAX_LENGTH,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )

    def clean(self) -> dict[str, Any]:
        """Check the password on the hash pool; a full pool is said, not shown as a server error."""
        try:
            return super().clean()
        except Overloaded as busy:
            raise ValidationError(f"The server is busy. Try again in {busy.retry_after_s} s.", code=busy.code) from busy


class _UniqueAddress(UserModelForm):
    """Adds to a form of users that the *folded* address must be free."""

    def clean_email(self) -> str:
        """Return the address in its stored form; refuses one that another account has, whatever its case."""
        email = emails.normalise(self.cleaned_data["email"])
        if User.objects.filter(email_key=emails.fold(email)).exclude(pk=self.instance.pk).exists():
            raise ValidationError("An account with this e-mail address exists already.", code="unique")
        return email


class UserAddForm(_UniqueAddress, AddForm):
    """A new user: address, name, and a password or none. Rights and roles are given on the next page."""

    class Meta:
        """Which fields."""

        model = User
        fields = ("email", "name")


class UserEditForm(_UniqueAddress, ChangeForm):
    """Everything about a user; refuses to disable the last superuser."""

    class Meta:
        """Which fields."""

        model = User
        fields = "__all__"  # the admin's fieldsets say which

    def clean(self) -> dict[str, Any]:
        """Refuse a change that would leave nobody to run the system."""
        data = super().clean() or self.cleaned_data
        stays = data.get("is_active", True) and data.get("is_superuser", self.instance.is_superuser)
        if not stays:
            try:
                with transaction.atomic():
                    units.keep_a_superuser(without=[self.instance])
            except LastSuperuser as refused:
                raise ValidationError(refused.detail, code=refused.code) from refused
        return data


class RoleForm(GroupModelForm):
    """A role; its name must fit a path and a header."""

    class Meta:
        """Which fields."""

        model = Group
        fields = ("name", "permissions")
        labels: ClassVar[dict[str, str]] = {"name": "Role"}

    def clean_name(self) -> str:
        """Return the name; one that was accepted before is left alone."""
        name: str = self.cleaned_data["name"]
        if name != self.instance.name:
            validate_role_name(name)
        return name
