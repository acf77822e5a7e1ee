"""The secret of an app at rest: a dump of the database makes no code, and neither do the master keys alone."""

from django.conf import settings
from django.db import models

from ironauth.infrastructure.core import clock


class TotpFactor(models.Model):
    """An app that makes one-time codes (RFC 6238). Its secret is sealed, bound to the user's id.

    Attributes:
        confirmed_at: When the first code proved that the app has the secret; before that it counts for nothing.
        last_step: The time step of the last code that was used, of which no second one is taken (RFC 6238 §5.2).
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.DB_CASCADE, related_name="totp"
    )
    sealed = models.BinaryField()
    master_key_id = models.CharField(max_length=16)
    created_at = models.DateTimeField(default=clock.now)
    confirmed_at = models.DateTimeField(null=True)
    last_step = models.BigIntegerField(default=0)

    class Meta:
        """Rights over these rows would be rights over accounts: nobody is given any."""

        default_permissions = ()

    def __str__(self) -> str:
        return f"one-time codes of {self.pk}"
