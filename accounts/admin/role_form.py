"""The admin's form for roles."""

from typing import ClassVar

from accounts.admin.forms import KeepsUnseen
from accounts.users.inputs import validate_role_name
from accounts.users.models import Role


class RoleForm(KeepsUnseen):
    """A role; its name must fit a path and a header."""

    class Meta:
        """Which fields."""

        model = Role
        fields = ("name", "permissions")
        help_texts: ClassVar[dict[str, str]] = {
            "name": "Travels in the tokens of everybody who has the role: applications may grant rights by it. Who "
            "may change users can give a role whose permissions they hold, so a role without permissions is given "
            "by all of them. To have it given by few, add a permission that only they hold.",
            "permissions": "What the role allows here.",
        }

    def clean_name(self) -> str:
        """Return the name; one that was accepted before is left alone."""
        name: str = self.cleaned_data["name"]
        if name != self.instance.name:
            validate_role_name(name)
        return name
