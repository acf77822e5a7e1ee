"""Everything held about a person, in sections: each application says where its own rows are.

A section is a queryset of dicts, in an order whose first rows matter most, without secrets: hashes, keys and nonces are
not the person's data and are left out by naming what goes in. A test walks all models and fails for one that knows a
user and is in no section.
"""

import uuid
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType
from django.db.models import F, Model, Q, QuerySet

from accounts.audit_models import AuditEvent
from accounts.deletion_models import PendingDeletion
from accounts.mail_models import EmailToken, OutgoingMail
from accounts.mfa.models import RecoveryCode, TotpFactor
from accounts.mfa.passkey_models import Passkey
from accounts.models import User
from accounts.outputs import ExportOut
from ironauth.infrastructure import clock

#: A queryset of dicts.
type Rows = Callable[[uuid.UUID], QuerySet[Any, Any]]

#: Rows of a section in an answer of the API, which is made in memory: 5,000 events are 2 MB and a tenth of a second.
#: Whoever has more of them asks the operator: `manage.py export_user` has no limit.
MOST_ROWS: Final = 5_000


class Section(NamedTuple):
    """Where some of the rows about a person are; ``covers``: the models it speaks for."""

    rows: Rows
    covers: tuple[type[Model], ...]


_sections: dict[str, Section] = {}


def register(name: str, rows: Rows, *covers: type[Model]) -> None:
    """Add a section. Raises ``ValueError`` for a name that is taken."""
    if name in _sections:
        raise ValueError(f"There is a section {name!r} already: choose another name.")
    _sections[name] = Section(rows, covers)


def covered() -> frozenset[type[Model]]:
    """Return the models some section speaks for."""
    return frozenset(model for section in _sections.values() for model in section.covers)


def collect(user_id: uuid.UUID, *, most: int | None = MOST_ROWS) -> ExportOut:
    """Return everything held about this user, at most ``most`` rows of each section. A unit of work that reads.

    One query for each section. ``incomplete`` names the sections that have more rows.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    incomplete = []
    for name, section in _sections.items():
        rows = section.rows(user_id)
        found[name] = list(rows if most is None else rows[: most + 1])
        if most is not None and len(found[name]) > most:
            del found[name][most:]
            incomplete.append(name)
    return ExportOut(user_id, clock.now(), found, tuple(incomplete))


def _account(user_id: uuid.UUID) -> QuerySet[Any, Any]:
    return User.objects.filter(pk=user_id).values(
        "id", "email", "name", "is_active", "is_staff", "is_superuser", "email_verified_at", "must_change_password",
        "password_flagged_at", "last_login", "created_at", "updated_at",
    )  # fmt: skip


def _pending_deletion(user_id: uuid.UUID) -> QuerySet[Any, Any]:
    return PendingDeletion.objects.filter(pk=user_id).values("email", "email_verified_at", "requested_at", "due_at")


def _roles(user_id: uuid.UUID) -> QuerySet[Any, Any]:
    return Group.objects.filter(user=user_id).order_by("name").values("name")


def _permissions(user_id: uuid.UUID) -> QuerySet[Any, Any]:
    held = Permission.objects.filter(user=user_id).order_by("pk")
    return held.values("codename", application=F("content_type__app_label"))


def _links(user_id: uuid.UUID) -> QuerySet[Any, Any]:
    links = EmailToken.objects.filter(user_id=user_id).order_by("-pk")
    return links.values("purpose", "new_email", "created_at", "expires_at")


def _mails(user_id: uuid.UUID) -> QuerySet[Any, Any]:
    mails = OutgoingMail.objects.filter(user_id=user_id).order_by("-pk")
    return mails.values("kind", "recipient", "facts", "created_at", "next_try_at", "tries", "failed_at")


def _one_time_codes(user_id: uuid.UUID) -> QuerySet[Any, Any]:
    return TotpFactor.objects.filter(user_id=user_id).values("created_at", "confirmed_at")


def _recovery_codes(user_id: uuid.UUID) -> QuerySet[Any, Any]:
    return RecoveryCode.objects.filter(user_id=user_id).order_by("pk").values("id", "created_at")


def _passkeys(user_id: uuid.UUID) -> QuerySet[Any, Any]:
    """Return what tells the passkeys apart; an id and a public key mean something to the authenticator alone."""
    return Passkey.objects.filter(user_id=user_id).order_by("pk").values(
        "id", "name", "transports", "backup_eligible", "backed_up", "aaguid", "sign_count", "created_at",
        "last_used_at",
    )  # fmt: skip


_OF_ANY_EVENT: Final = ("id", "at", "event", "outcome", "actor_id", "user_id", "session_id", "request_id", "details")
_WHENCE: Final = ("address", "user_agent")  # whose they are: the actor's


def _events(events: QuerySet[AuditEvent], *more: str) -> QuerySet[Any, Any]:
    rows: QuerySet[Any, Any] = events.order_by("-id").values(*_OF_ANY_EVENT, *more)
    return rows


def _events_about(user_id: uuid.UUID) -> QuerySet[Any, Any]:
    """Return what the person did, or somebody unknown tried, to the account."""
    return _events(AuditEvent.objects.filter(Q(actor_id=user_id) | Q(actor_id=None), user_id=user_id), *_WHENCE)


def _events_by_others(user_id: uuid.UUID) -> QuerySet[Any, Any]:
    """Return what staff did to the account; where they did it is other people's data."""
    return _events(AuditEvent.objects.filter(user_id=user_id, actor_id__isnull=False).exclude(actor_id=user_id))


def _events_by(user_id: uuid.UUID) -> QuerySet[Any, Any]:
    """Return what the person did to others, or to nobody's account; each half has an index of its own."""
    return _events(AuditEvent.objects.filter(actor_id=user_id).exclude(user_id=user_id), *_WHENCE)


def _admin_log(user_id: uuid.UUID) -> QuerySet[Any, Any]:
    """Return what the person did in the admin; to whom is other people's data."""
    entries = LogEntry.objects.filter(user_id=user_id).order_by("-pk")
    return entries.values("action_time", "action_flag", "change_message")


def _admin_log_about(user_id: uuid.UUID) -> QuerySet[Any, Any]:
    """Return what was done to the account in the admin; the trail says by whom."""
    about = LogEntry.objects.filter(content_type=ContentType.objects.get_for_model(User), object_id=str(user_id))
    return about.order_by("-pk").values("action_time", "action_flag", "change_message")


register("account", _account, User)
register("pending_deletion", _pending_deletion, PendingDeletion)
register("roles", _roles, User.groups.through)
register("permissions", _permissions, User.user_permissions.through)
register("links_in_messages", _links, EmailToken)
register("messages_waiting", _mails, OutgoingMail)
register("one_time_codes", _one_time_codes, TotpFactor)
register("recovery_codes", _recovery_codes, RecoveryCode)
register("passkeys", _passkeys, Passkey)
register("events", _events_about, AuditEvent)
register("events_by_others", _events_by_others, AuditEvent)
register("events_caused", _events_by, AuditEvent)
register("admin_log", _admin_log, LogEntry)
register("admin_log_about", _admin_log_about, LogEntry)
