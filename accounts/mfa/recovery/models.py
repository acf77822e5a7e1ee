"""Recovery codes at rest: a hash each."""

from django.conf import settings
from django.db import models

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id


class RecoveryCode(models.Model):
    """A code that stands in for a lost factor, once: the row goes when it is used.

    ``selector`` is the beginning of the code and finds the row; ``encoded`` is the whole code's Argon2id hash. A code
    of another system has neither: see ``brought``.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.DB_CASCADE, related_name="recovery_codes")
    selector = models.CharField(max_length=4)
    encoded = models.CharField(max_length=256)  # passwords.MAX_ENCODED_LENGTH, which knows the user's model
    created_at = models.DateTimeField(default=clock.now)

    class Meta:
        """Rights over these rows would be rights over accounts: nobody is given any.

        The constraint is also the index by which a code is found.
        """

        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=("user", "selector"), name="accounts_recovery_code_selector"),)

    def __str__(self) -> str:
        return f"recovery code {self.pk}"
