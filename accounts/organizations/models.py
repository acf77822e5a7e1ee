"""Organisations and who is a member of which."""

from typing import ClassVar, Final

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models

from accounts import names
from accounts.organizations import roles
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id

SLUG_CHARACTERS: Final = 64
ROLE_CHARACTERS: Final = 16
SLUG: Final = RegexValidator(r"^[a-z0-9]+(-[a-z0-9]+)*\Z", "Use small letters and digits, with single hyphens between.")


class Organization(models.Model):
    """A group of people with an id and a name of its own. Its slug never changes, and no other has the same."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(max_length=names.MAX_LENGTH, validators=[names.validate])
    slug = models.CharField(
        "short name",
        max_length=SLUG_CHARACTERS,
        unique=True,
        validators=[SLUG],
        help_text="For addresses of applications. It cannot be changed later.",
    )
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ("name", "id")

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """One person in one organisation, with a role of ``roles.Role``."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(Organization, on_delete=models.DB_CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.DB_CASCADE, related_name="memberships")
    role = models.CharField(max_length=ROLE_CHARACTERS, choices=roles.CHOICES)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        """One membership for each person and organisation. Rights over members are those over organisations."""

        default_permissions = ()
        constraints: ClassVar = (
            models.UniqueConstraint(fields=("user", "organization"), name="accounts_membership_once"),
        )

    def __str__(self) -> str:
        return f"membership {self.pk}"
