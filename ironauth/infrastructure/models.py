"""The table that carries revocations to every process."""

from datetime import timedelta

from django.db import models

from ironauth.infrastructure import clock


class Invalidation(models.Model):
    """One tag whose cached entries must not be used any more; rows are added, never changed.

    The row is written in the transaction of the change it announces, so that neither exists without the other.
    """

    id = models.BigAutoField(primary_key=True)
    tag = models.CharField(max_length=80)
    created_at = models.DateTimeField(default=clock.now)

    class Meta:
        """Named in full, because other tools read the table."""

        db_table = "infrastructure_invalidation"

    def __str__(self) -> str:
        return f"{self.pk} {self.tag}"


def purge(older_than_s: float = 3600, batch: int = 1000) -> int:
    """Delete rows older than ``older_than_s`` seconds, at most ``batch`` of them; return how many. A unit of work.

    The newest row always stays: feeds tell by it that the table still holds the history they have read. One hour is
    far beyond the 5 s in which every running feed has read a row.
    """
    newest = Invalidation.objects.order_by("-id").values_list("id", flat=True).first()
    if newest is None:
        return 0
    before = clock.now() - timedelta(seconds=older_than_s)
    # By primary key: rows are in order of time, so that no index on created_at is needed.
    oldest = Invalidation.objects.order_by("id").values_list("id", "created_at")[:batch]
    old = [pk for pk, created_at in oldest if created_at < before and pk != newest]
    return Invalidation.objects.filter(id__in=old).delete()[0] if old else 0
