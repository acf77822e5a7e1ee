"""The tables every process shares: revocations, what the throttles count, what was used up, and answers to repeat."""

from datetime import timedelta

from django.db import models

from ironauth.infrastructure.core import clock


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


class ThrottleWindow(models.Model):
    """How often something happened in the present window and the one before; see ``ratelimit.window``.

    ``key`` is a MAC: the table holds neither client addresses nor e-mail addresses. Times are unix seconds, because
    the statements that count compute with them.
    """

    key = models.CharField(primary_key=True, max_length=32)
    slot = models.BigIntegerField()  # number of the window since the epoch
    count = models.IntegerField()
    previous = models.IntegerField()
    expires_at = models.BigIntegerField(db_index=True)

    class Meta:
        """Named in full, because statements are written by hand."""

        db_table = "infrastructure_throttlewindow"

    def __str__(self) -> str:
        return f"{self.key}: {self.count}"


class ThrottleFailures(models.Model):
    """How often in a row something was guessed wrong, and when the next try is let in; see ``ratelimit.lockout``.

    ``known_until``: until when this row stands for a device that has succeeded before; 0 for everybody else's.
    """

    key = models.CharField(primary_key=True, max_length=32)
    failures = models.IntegerField()
    retry_at = models.FloatField()
    known_until = models.BigIntegerField()
    expires_at = models.BigIntegerField(db_index=True)

    class Meta:
        """Named in full, because statements are written by hand."""

        db_table = "infrastructure_throttlefailures"

    def __str__(self) -> str:
        return f"{self.key}: {self.failures}"


class UsedOnce(models.Model):
    """Something that may be used once, has been: ``single_use``.

    ``expires_at``: its end anyway, in unix seconds. ``led_to``: the session that was opened by it, where that is kept.
    """

    key = models.CharField(primary_key=True, max_length=80)
    expires_at = models.BigIntegerField(db_index=True)
    led_to = models.UUIDField(null=True)

    class Meta:
        """Named in full, as the tables above."""

        db_table = "infrastructure_usedonce"

    def __str__(self) -> str:
        return self.key


class IdempotencyKey(models.Model):
    """A request that was sent with an Idempotency-Key: ``db.idempotency``. It has nothing in clear.

    ``key``: the digest of caller and key. ``fingerprint``: a MAC of the request. ``answer``: sealed; NULL while the
    request is in flight. ``claim``: the try that it belongs to. ``expires_at``: in unix seconds.
    """

    key = models.CharField(primary_key=True, max_length=64)
    claim = models.UUIDField()
    fingerprint = models.BinaryField(max_length=32)
    master_key_id = models.CharField(max_length=16)
    answer = models.BinaryField(null=True)
    expires_at = models.BigIntegerField(db_index=True)

    class Meta:
        """Named in full, as the tables above."""

        db_table = "infrastructure_idempotencykey"

    def __str__(self) -> str:
        return self.key


def purge(older_than_s: float = 3600, batch: int = 1000) -> int:
    """Delete rows older than ``older_than_s`` seconds, at most ``batch`` of them; return how many. A unit of work.

    The newest row always stays: feeds tell by it that the table still holds the history they have read. One hour is
    far beyond the 5 s in which every running feed has read a row.

    Args:
        older_than_s: Seconds.
        batch: How many rows at most.
    """
    newest = Invalidation.objects.order_by("-id").values_list("id", flat=True).first()
    if newest is None:
        return 0
    before = clock.now() - timedelta(seconds=older_than_s)
    # By primary key: rows are in order of time, so that no index on created_at is needed.
    oldest = Invalidation.objects.order_by("id").values_list("id", "created_at")[:batch]
    old = [pk for pk, created_at in oldest if created_at < before and pk != newest]
    return Invalidation.objects.filter(id__in=old).delete()[0] if old else 0


def purge_throttles(batch: int = 1000) -> int:
    """Delete at most ``batch`` rows of each throttle table that count no more; return how many. A unit of work."""
    now = int(clock.unix())
    deleted = 0
    for table in (ThrottleWindow, ThrottleFailures):
        over = table._default_manager.filter(expires_at__lte=now)  # noqa: SLF001 - documented by Django
        keys = list(over.order_by("expires_at").values_list("pk", flat=True)[:batch])
        # Asked again: a row may have been counted in meanwhile.
        deleted += over.filter(pk__in=keys).delete()[0] if keys else 0
    return deleted
