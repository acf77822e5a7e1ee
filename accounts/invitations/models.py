"""The row behind an invitation. The token in its link is an e-mail token without a user (``accounts.outbox``)."""

from datetime import datetime
from typing import Final

from django.conf import settings
from django.db import models
from django.db.models import Q

from accounts import email_address as emails
from accounts import names
from accounts.outbox.models import EmailToken
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id

MAX_LANGUAGE: Final = 16  # characters, as of a person's own
MAX_CLIENT: Final = 64  # characters of a client_id
MAX_ORGANIZATION_ROLE: Final = 16  # characters


class Invitation(models.Model):
    """A person who is asked to make an account, the member of staff who asks, and what came of it.

    ``roles`` are names. Whether the person gets one is judged when they accept: it has to exist then, and who invited
    them has to hold all that it grants. ``client``: the id of the application it leads to (``continuing``), "" for
    none. ``user``: the account that was made of it, with which it goes. ``token``: of the last message.
    ``organization``: what the person becomes a member of, as ``organization_role``; one of its members has invited them
    then, and an account that exists may accept it. None for an invitation of staff.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    email = models.CharField("e-mail address", max_length=emails.MAX_LENGTH)
    email_key = models.CharField(max_length=emails.MAX_KEY_LENGTH, editable=False)
    name = models.CharField(max_length=names.MAX_LENGTH, blank=True, default="")
    language = models.CharField(max_length=MAX_LANGUAGE, blank=True, default="")
    roles = models.JSONField(default=list, blank=True)
    client = models.CharField(max_length=MAX_CLIENT, blank=True, default="", db_default="")
    organization = models.ForeignKey(
        "accounts.Organization", null=True, on_delete=models.DB_CASCADE, related_name="invitations", editable=False
    )
    organization_role = models.CharField(
        max_length=MAX_ORGANIZATION_ROLE, blank=True, default="", db_default="", editable=False
    )
    invited_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.DB_SET_NULL, related_name="invitations_made"
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.DB_CASCADE, related_name="invitations"
    )
    token = models.ForeignKey(EmailToken, null=True, on_delete=models.DB_SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=clock.now)
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True)
    withdrawn_at = models.DateTimeField(null=True)

    class Meta:
        """One of staff, and one of each organisation, waits for an answer from an address. Nobody changes one."""

        default_permissions = ("view", "add", "delete")
        constraints = (
            models.UniqueConstraint(
                fields=("email_key",),
                condition=Q(accepted_at=None, withdrawn_at=None, organization=None),
                name="accounts_invitation_waiting",
            ),
            models.UniqueConstraint(
                fields=("organization", "email_key"),
                condition=Q(accepted_at=None, withdrawn_at=None, organization__isnull=False),
                name="accounts_invitation_of_organization",
            ),
        )

    def __str__(self) -> str:
        return f"Invitation of {self.email}"

    def state_at(self, now: datetime, *, is_dead: bool = False) -> str:
        """Return what has come of it: accepted, withdrawn, expired or waiting.

        Args:
            now: The moment.
            is_dead: Whether who made it may not invite so any more: it is as good as withdrawn.
        """
        if self.accepted_at is not None:
            return "accepted"
        if self.withdrawn_at is not None or is_dead:
            return "withdrawn"
        return "waiting" if self.expires_at > now else "expired"
