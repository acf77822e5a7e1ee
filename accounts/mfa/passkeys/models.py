"""Passkeys: people's WebAuthn credentials. Nothing in a row is secret: private keys never leave the authenticator."""

from typing import Final

from django.conf import settings
from django.db import models

from accounts import names
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id

MAX_CREDENTIAL_ID: Final = 1_023  # bytes; WebAuthn Level 3 §4, "Credential ID"
MAX_TRANSPORTS: Final = 64  # characters; all of AuthenticatorTransport (§5.8.4) together have 44


class Passkey(models.Model):
    """One credential of a person, on one authenticator or synchronised between several of theirs.

    The database deletes a person's passkeys with the person.

    Attributes:
        sign_count: The highest the authenticator has shown; 0 where it does not count.
        transports: How it is reached, separated by spaces.
        backup_eligible: Never changes.
        backed_up: May change.
        last_used_at: Written at most once a minute for an authenticator that does not count.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.DB_CASCADE, related_name="passkeys")
    credential_id = models.BinaryField(max_length=MAX_CREDENTIAL_ID, unique=True)
    public_key = models.BinaryField()  # COSE_Key (RFC 9052 §7)
    sign_count = models.PositiveBigIntegerField()  # 32 bits without sign, which Postgres' integer does not hold
    name = models.CharField(max_length=names.MAX_LENGTH)
    transports = models.CharField(max_length=MAX_TRANSPORTS, blank=True)
    backup_eligible = models.BooleanField()
    backed_up = models.BooleanField()
    aaguid = models.UUIDField()  # the authenticator's model, all zeros where the browser hides it
    created_at = models.DateTimeField(default=clock.now)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        """Rights over these rows would be rights over accounts: nobody is given any."""

        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.name} {self.id}"
