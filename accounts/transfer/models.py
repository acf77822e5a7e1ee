"""Which run imported which account. A second run and an undo read it."""

from django.conf import settings
from django.db import models

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id

MAX_EXTERNAL_ID = 255  # characters; OpenID Connect Core §2 gives a subject as many
MAX_SOURCE = 16  # characters of a source's name
DIGEST_CHARACTERS = 64  # of HMAC-SHA-256, hexadecimal


class UserImport(models.Model):
    """One run of ``manage.py import_users`` that wrote something."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    source = models.CharField(max_length=MAX_SOURCE)
    started_at = models.DateTimeField(default=clock.now)
    finished_at = models.DateTimeField(null=True)  # none: it was interrupted; run it again
    undone_at = models.DateTimeField(null=True)
    counts = models.JSONField(default=dict)

    class Meta:
        """Commands alone write and read it."""

        ordering = ("-id",)
        default_permissions = ()

    def __str__(self) -> str:
        return f"import {self.pk} from {self.source}"


class ImportedUser(models.Model):
    """The account of somebody from another system, by the id they had there."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.DB_CASCADE, related_name="imported"
    )
    source = models.CharField(max_length=MAX_SOURCE)
    external_id = models.CharField(max_length=MAX_EXTERNAL_ID)
    #: None: the old system was asked at the person's first sign-in (``accounts.lazy_migration``).
    run = models.ForeignKey(UserImport, null=True, on_delete=models.DB_CASCADE, related_name="imported")

    class Meta:
        """One account for each id of a source."""

        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=("source", "external_id"), name="accounts_imported_external_id"),)

    def __str__(self) -> str:
        return f"{self.source} {self.external_id}"


class LeftAddress(models.Model):
    """An address that an account had before it was deleted or got another one, while old systems are asked for people.

    A person who has left here does not come back from there. ``digest``: a MAC under a master key, no address. All rows
    go when lazy migration has ended.
    """

    digest = models.CharField(primary_key=True, max_length=DIGEST_CHARACTERS)
    left_at = models.DateTimeField(default=clock.now)

    class Meta:
        """Nobody looks at it."""

        default_permissions = ()

    def __str__(self) -> str:
        return f"left {self.left_at:%Y-%m-%d}"
