"""Rows behind e-mail: single-use tokens, and the queue of messages still to be sent.

Neither holds a clear token or a rendered message: a dump of the database opens nothing. What a message says is made
when it is sent, and its token is computed anew then (``tokens``).
"""

from django.conf import settings
from django.db import models
from django.db.models import Q

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id

MAX_ADDRESS = 254  # characters; accounts.email_address.MAX_LENGTH, which knows the model above


class EmailToken(models.Model):
    """What a link in a message allows once. Without a user it allows nothing: it was made for an unknown address.

    But an invitation's: it is made for a person without an account, and its row names it.

    The row goes when the token is used, when a newer one of its purpose is made, and with the password or the
    address it was made under.
    """

    class Purpose(models.TextChoices):
        """What the token is good for."""

        VERIFY_EMAIL = "verify_email"
        CHANGE_EMAIL = "change_email"
        RESET_PASSWORD = "reset_password"  # noqa: S105 - a purpose, not a password
        RESTORE_ACCOUNT = "restore_account"
        SIGN_IN = "sign_in"
        INVITATION = "invitation"
        REAUTHENTICATE = "reauthenticate"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    purpose = models.CharField(max_length=16, choices=Purpose)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.DB_CASCADE, related_name="email_tokens"
    )
    new_email = models.CharField(max_length=MAX_ADDRESS, blank=True, default="")
    nonce = models.BinaryField()
    master_key_id = models.CharField(max_length=16)
    digest = models.BinaryField()
    #: How often a code was typed; NULL for a token that has none.
    code_tries = models.PositiveSmallIntegerField(null=True)
    #: The session in which alone it is good; NULL for one that is good anywhere.
    session_id = models.UUIDField(null=True)
    created_at = models.DateTimeField(default=clock.now)
    expires_at = models.DateTimeField()

    class Meta:
        """Rights over these rows would be rights over accounts: nobody is given any."""

        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.purpose} {self.id}"


class OutgoingMail(models.Model):
    """A message to be sent. Its id is its Message-ID at every try.

    Without a recipient nothing is sent. Such a row is written for an unknown address, so that asking for one costs what
    asking for a known one does. The database deletes a message with its token: a link that opens nothing is not worth
    sending.

    Attributes:
        claimed_until: From then on another worker may take it.
        failed_at: When it was given up.
        facts: What the templates may use in addition, never a secret.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    kind = models.CharField(max_length=32)  # of ``kinds``; no choices: a new one needs no migration
    recipient = models.CharField(max_length=MAX_ADDRESS, blank=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.DB_CASCADE, related_name="+")
    token = models.ForeignKey(EmailToken, null=True, on_delete=models.DB_CASCADE, related_name="+")
    facts = models.JSONField(default=dict)
    created_at = models.DateTimeField(default=clock.now)
    next_try_at = models.DateTimeField(default=clock.now)
    tries = models.PositiveIntegerField(default=0)
    claimed_until = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)

    class Meta:
        """What the deliverer asks every two seconds has an index without the messages given up."""

        default_permissions = ()
        indexes = (models.Index(fields=("next_try_at",), condition=Q(failed_at=None), name="accounts_mail_due"),)

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"
