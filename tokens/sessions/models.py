"""Stored sessions and signing keys.

No token is stored: a session row holds what is needed to recognise one (a generation number and a secret that is
useless without the server's key), a signing key row holds its private part encrypted.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Coalesce
from django.db.models.signals import pre_delete
from django.dispatch import receiver

from ironauth.infrastructure.cache.invalidation import invalidate
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.db.compiled import Param
from tokens.clients.models import CHALLENGE_CHARACTERS
from tokens.details.lists import MAX_BYTES as DETAILS_BYTES
from tokens.protocol import Scope
from tokens.resources.identifiers import LIST_CHARACTERS
from tokens.sessions.refresh_token import SECRET_BYTES

#: Half of an HMAC-SHA-256, in hexadecimal digits.
BROWSER_CHARACTERS = 32
#: The client of sessions that a person opened here, not through another application.
FIRST_PARTY_CLIENT = "ironauth"
#: What a first-party token may do: everything the person may do with their own account here.
FIRST_PARTY_SCOPE = Scope.ACCOUNT.value
#: The client of sessions in which a person uses this provider's own pages: single sign-on for all clients.
SSO_CLIENT = "ironauth-sso"


#: How somebody signs in with a password alone: a value of RFC 8176.
BY_UPSTREAM = "fed"  # another provider said who it is: RFC 8176 has no value for it either
BY_EMAIL = "email"  # a code that was mailed: RFC 8176 has no value for it
BY_KEPT_DEVICE = "kept_device"  # stands in for a second factor, and is none: RFC 8176 has no value for it
BY_PASSKEY = "pop"  # proof of possession of a key
BY_PASSWORD = "pwd"  # noqa: S105 - a value, not a password
#: When a session was authenticated whose row does not say: one of the release before.
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def new_secret() -> bytes:
    """Return 256 random bits for one session."""
    return os.urandom(SECRET_BYTES)


def sid_tag(session_id: UUID | str) -> str:
    """Return the tag of cached entries that depend on this session."""
    return f"sid:{session_id}"


class EverybodysEnd(models.Model):
    """A moment at which the sessions of everybody ended (``sessions.ends.of_everybody``), and how far their rows are.

    No session that was opened at or before the newest of these moments lives, whether or not its row is written yet.

    Attributes:
        at: The moment.
        actor_id: Who asked for it; None for a command.
        after: The last session whose row was looked at; None before the first.
        ended: How many rows are written by now.
        finished_at: When all of them did; None until then.
    """

    at = models.DateTimeField(default=clock.now, unique=True)
    actor_id = models.UUIDField(null=True)
    after = models.UUIDField(null=True)
    ended = models.PositiveBigIntegerField(default=0)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        """It has no rights of its own: superusers begin one, and nobody changes one."""

        default_permissions = ()
        ordering = ["-at"]

    def __str__(self) -> str:
        return str(self.at)


def everybodys_end() -> Coalesce:
    """Return the newest moment at which the sessions of everybody ended, long ago for none; it is looked up once."""
    newest = models.Subquery(EverybodysEnd.objects.order_by("-at").values("at")[:1])
    return Coalesce(newest, models.Value(LONG_AGO))


def _with_all() -> models.Subquery:
    """Return the newest moment at which a session ended with those of everybody, for a query of sessions."""
    moments = EverybodysEnd.objects.filter(at__gte=models.OuterRef("created_at")).order_by("-at")
    return models.Subquery(moments.values("at")[:1])


class SessionQuerySet(models.QuerySet["Session"]):
    """Sessions, many at a time."""

    def live(self, now: datetime | Param) -> SessionQuerySet:
        """Return the sessions that are neither revoked, nor expired at ``now``, nor ended with others.

        That is, by their user's epoch, or with those of everybody.
        """
        found = self.filter(revoked_at=None, idle_expires_at__gt=now, epoch=models.F("user__session_epoch"))
        return found.outlasting()

    def outlasting(self) -> SessionQuerySet:
        """Return the sessions that have not ended with those of everybody. The moment is looked up once."""
        return self.filter(created_at__gt=everybodys_end())

    def with_end(self) -> SessionQuerySet:
        """Add ``ended_at``: when a session ended before its time, by its row or with those of everybody; else NULL."""
        return self.annotate(ended_at=Coalesce("revoked_at", _with_all()))

    def with_all_end(self) -> SessionQuerySet:
        """Add ``ended_with_all_at``: when a session ended with those of everybody, whatever its row says; else NULL."""
        return self.annotate(ended_with_all_at=_with_all())

    def over(self, before: datetime) -> SessionQuerySet:
        """Return the sessions that were revoked or expired before ``before``."""
        return self.filter(Q(revoked_at__lt=before) | Q(idle_expires_at__lt=before))

    def revoke(self, reason: str, now: datetime) -> int:
        """Mark the sessions not yet revoked as ended at ``now``; return how many there were.

        One statement. Publishes nothing: the unit of work around it does, in the same transaction.
        """
        return self.filter(revoked_at=None).update(revoked_at=now, revoke_reason=reason)


class Session(models.Model):
    """One signed-in device. ``idle_expires_at`` never lies after ``absolute_expires_at``.

    The database itself deletes a person's sessions with the person. Other code that ends a session must publish it:
    ``save()``, ``delete()`` and a queryset's ``delete()`` do; ``update()`` is for units of work that publish
    themselves.

    No time column is indexed, so that Postgres can refresh a session without touching an index (heap-only updates), and
    its pages keep room for that (migration 0002); the purge walks the primary key instead.

    Attributes:
        authenticated_at: When the person last proved in it who they are. A refresh proves nothing and keeps it.
        amr: How they proved it, as in RFC 8176 §1.
        client_id: Whose it is: an application here, or the text of an OAuth client's id.
        parent_id: The single SSO session in which a client's session began, or one of the account's pages.
        dpop_jkt: The thumbprint of the key (RFC 9449 §6) or certificate (RFC 8705 §4) that alone may use its tokens; ""
            where any holder may.
        actor_id: The member of staff who opened it to act as the person (``acting``); None for the person's own.
        actor_epoch: The epoch of *their* account then.
        browser: A MAC of what our pages know its browser by; "" for sessions whose tokens are in no cookies of theirs.
        goes_on_from: The session of the account's pages that an SSO session was opened from, to outlive it. For
            one of the pages that has let go of its SSO session: what that one went on from.
        resources: The APIs that its access tokens are for, separated by spaces; "" for this server's own audience.
        details: The authorization details that were granted (`details.lists`); "" for none.
        kept_device_id: The kept device of its browser, which goes when the session is thrown out; None without one.
        organization_id: The organization that the person acts for in it; None as a rule. The membership decides whether
            its tokens say so (``organizations``).
    """

    class RevokeReason(models.TextChoices):
        """Why a session ended before its time."""

        SIGNED_OUT = "signed_out", "Signed out"
        ENDED_BY_USER = "ended_by_user", "Ended by user"
        ENDED_BY_STAFF = "ended_by_staff", "Ended by staff"
        REUSE = "reuse"
        TOO_MANY = "too_many", "Too many sessions"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.DB_CASCADE, related_name="sessions")
    generation = models.PositiveIntegerField(default=0)
    secret = models.BinaryField(default=new_secret)
    master_key_id = models.CharField(max_length=16)
    client_id = models.CharField(max_length=64, default=FIRST_PARTY_CLIENT)
    scope = models.CharField(max_length=255, default=FIRST_PARTY_SCOPE, blank=True)
    epoch = models.PositiveIntegerField()
    created_at = models.DateTimeField(default=clock.now)
    authenticated_at = models.DateTimeField(default=clock.now, db_default=LONG_AGO)
    amr = models.CharField(max_length=64, default=BY_PASSWORD, db_default=BY_PASSWORD)
    last_used_at = models.DateTimeField(default=clock.now)
    rotated_at = models.DateTimeField(null=True, blank=True)
    idle_expires_at = models.DateTimeField()
    absolute_expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoke_reason = models.CharField(max_length=16, choices=RevokeReason, blank=True, default="")
    ip = models.GenericIPAddressField(null=True, blank=True)
    user_agent = models.CharField(max_length=255, blank=True, default="")
    parent_id = models.UUIDField(null=True, blank=True)
    dpop_jkt = models.CharField(max_length=CHALLENGE_CHARACTERS, blank=True, default="", db_default="")
    actor_id = models.UUIDField(null=True, blank=True)
    actor_epoch = models.PositiveIntegerField(null=True, blank=True)
    kept_device_id = models.UUIDField(null=True, blank=True)
    browser = models.CharField(max_length=BROWSER_CHARACTERS, blank=True, default="", db_default="")
    goes_on_from = models.UUIDField(null=True, blank=True)
    resources = models.CharField(max_length=LIST_CHARACTERS, blank=True, default="", db_default="")
    details = models.CharField(max_length=DETAILS_BYTES, blank=True, default="", db_default="")
    organization_id = models.UUIDField(null=True, blank=True)

    objects = SessionQuerySet.as_manager()

    class Meta:
        ordering = ["-last_used_at"]
        indexes = [
            # To end what began in an SSO session; partial, since most sessions have no parent.
            models.Index(fields=["parent_id"], condition=Q(parent_id__isnull=False), name="tokens_session_parent"),
            # To end and to count a client's. A session never changes hands, so that refreshing one stays heap-only.
            models.Index(fields=["client_id"], name="tokens_session_client"),
            # To count a person's. A refresh changes neither column.
            models.Index(fields=["user"], condition=Q(revoked_at=None), name="tokens_session_held"),
            # To find what another tab of a browser has opened; a refresh does not change it.
            models.Index(fields=["browser"], condition=~Q(browser=""), name="tokens_session_browser"),
            # To end what goes on from a session whose token was copied; nearly no session has one.
            models.Index(
                fields=["goes_on_from"], condition=Q(goes_on_from__isnull=False), name="tokens_session_goes_on"
            ),
            # To end those of a member of staff; nearly no session has an actor.
            models.Index(fields=["actor_id"], condition=Q(actor_id__isnull=False), name="tokens_session_actor"),
            # To take an organization out of its people's; most sessions have none, and a refresh keeps it.
            models.Index(
                fields=["organization_id"],
                condition=Q(organization_id__isnull=False),
                name="tokens_session_organization",
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(idle_expires_at__lte=models.F("absolute_expires_at")),
                name="tokens_session_idle_within_absolute",
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)

    def save(self, **kwargs: Any) -> None:
        """Write the row; a change to an existing one is published in the same transaction."""
        with transaction.atomic():
            if not self._state.adding:
                invalidate(sid_tag(self.pk))
            super().save(**kwargs)

    def is_over(self, now: datetime) -> bool:
        """Return whether the session was revoked or has expired at ``now``; says nothing about its user."""
        return self.revoked_at is not None or now >= self.idle_expires_at


@receiver(pre_delete, sender=Session)
def _publish_deletion(instance: Session, **_: Any) -> None:
    """Publish the end of a session that is about to be deleted."""
    invalidate(sid_tag(instance.pk))


class KnownDevice(models.Model):
    """A browser or application a person has signed in with: a sign-in by one not seen before is told to them.

    It lets nobody in. ``place`` (kind of browser and network) and ``device`` (its cookie, "" without one) are MACs: the
    row tells nobody where a person has been. The newest of a person's rows stay (``known_devices``).
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.DB_CASCADE, related_name="+")
    place = models.CharField(max_length=32)
    device = models.CharField(max_length=32, blank=True, default="")
    seen_at = models.DateTimeField(default=clock.now)

    class Meta:
        """Nobody has a use for these rows but the sign-in."""

        default_permissions = ()

    def __str__(self) -> str:
        return str(self.id)
