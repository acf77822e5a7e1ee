"""Everything held about a person, in sections: each application declares where its own rows are.

A section is a queryset of dicts, in an order whose first rows matter most. Secrets are left out, because each section
names its columns: hashes, keys and nonces are not the person's data. A test walks all models and fails for one that
knows a user and is in no section.
"""

import uuid
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission
from django.db.models import CharField, Exists, F, Model, Q, QuerySet, UUIDField
from django.db.models.functions import Now

from accounts.audit import recording as audit
from accounts.audit.events import Reason
from accounts.audit.models import AuditEvent
from accounts.mfa.factors import FACTORS
from accounts.mfa.kept_devices.models import KeptDevice
from accounts.outbox.kinds import Kind
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.outbox.tokens import Purpose
from accounts.privacy.models import PendingDeletion
from accounts.profile import FIELDS
from accounts.users.models import User
from accounts.users.outputs import ExportOut
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.compiled import CompiledSelect, Param

#: Returns a queryset of dicts; it is given what stands for the person's id in it.
type Rows = Callable[[Param], QuerySet[Any, Any]]

#: Rows of a section in an answer of the API, which is made in memory: 5,000 events are 2 MB and a tenth of a second.
#: Anybody who has more of them asks the operator: `manage.py export_user` has no limit.
MOST_ROWS: Final = 5_000


_REASONS: Final = frozenset(reason.value for reason in Reason)
_PERSON: Final = Param("person", UUIDField())
_PERSON_TEXT: Final = Param("person_text", CharField())  # the same as text, for columns of text


class Section(NamedTuple):
    """Where some of the rows about a person are; ``covers``: the models whose rows are in it."""

    rows: Rows
    covers: tuple[type[Model], ...]


_sections: dict[str, Section] = {}


def register(name: str, rows: Rows, *covers: type[Model]) -> None:
    """Add a section.

    Args:
        name: The name of the section in the export.
        rows: Makes the query of the section's rows.
        *covers: The tables whose rows about people are in it; a test compares them with all there are.

    Raises:
        ValueError: The name is taken.
    """
    if name in _sections:
        raise ValueError(f"There is a section {name!r} already: choose another name.")
    _sections[name] = Section(rows, covers)


def covered() -> frozenset[type[Model]]:
    """Return the models some section speaks for."""
    return frozenset(model for section in _sections.values() for model in section.covers)


def collect(user_id: uuid.UUID, *, most: int | None = MOST_ROWS) -> ExportOut:
    """Return everything held about this user, at most ``most`` rows of each section. A unit of work that reads.

    One query tells which sections have rows, and for each of those one more. ``incomplete`` names the sections that
    have more rows.

    Args:
        user_id: The person.
        most: Rows of a section; None for all.
    """
    whose = {"person": user_id, "person_text": str(user_id)}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in _sections}
    incomplete = []
    for name in _present(whose):
        found[name] = [_without_reason(row) for row in _query(name, most).dicts(**whose)]
        if most is not None and len(found[name]) > most:
            del found[name][most:]
            incomplete.append(name)
    return ExportOut(user_id, clock.now(), found, tuple(incomplete))


def _without_reason(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row; that of a failed sign-in without its reason, which the answers tell nobody and staff alone see."""
    details = row.get("details")
    if isinstance(details, dict) and details.get("reason") in _REASONS:
        row["details"] = {name: value for name, value in details.items() if name != "reason"}
    return row


def _present(whose: dict[str, Any]) -> list[str]:
    """Return the sections that have rows; all of them for somebody without an account by now. One query.

    Most people are in four of twenty, and a query without an answer costs as much as another one.
    """
    for flags in _PRESENT.rows(**whose):
        return [name for name, has in zip(_sections, flags, strict=True) if has]
    return list(_sections)


_PRESENT: Final = CompiledSelect(
    lambda: (
        User.objects.filter(pk=_PERSON)
        .order_by()
        .values_list(*(Exists(section.rows(_PERSON)) for section in _sections.values()))
    )
)


@cache  # of as many as there are sections: with the limit of an answer, and without one
def _query(name: str, most: int | None) -> CompiledSelect:
    rows = _sections[name].rows
    return CompiledSelect(lambda: rows(_PERSON) if most is None else rows(_PERSON)[: most + 1])


def _account(person: Param) -> QuerySet[Any, Any]:
    rows: QuerySet[Any, Any] = User.objects.filter(pk=person).values(
        "id", "email", "name", *FIELDS, "language", "is_active", "is_staff", "is_superuser", "email_verified_at",
        "must_change_password", "password_flagged_at", "terms_version", "terms_accepted_at", "last_login",
        "created_at", "updated_at",
    )  # fmt: skip
    return rows


def _pending_deletion(person: Param) -> QuerySet[Any, Any]:
    return PendingDeletion.objects.filter(pk=person).values("email", "email_verified_at", "requested_at", "due_at")


def _roles(person: Param) -> QuerySet[Any, Any]:
    return Group.objects.filter(user=person).order_by("name").values("name")


def _permissions(person: Param) -> QuerySet[Any, Any]:
    held = Permission.objects.filter(user=person).order_by("pk")
    return held.values("codename", application=F("content_type__app_label"))


def _links(person: Param) -> QuerySet[Any, Any]:
    links = EmailToken.objects.filter(user_id=person).exclude(purpose=Purpose.CHANGE_EMAIL).order_by("-pk")
    return links.values("purpose", "created_at", "expires_at")


def _wanted_addresses(person: Param) -> QuerySet[Any, Any]:
    """Return the address that the person wants, for as long as a link works that was sent at once.

    When its message is sent, and whether there is one, would tell whether another account has that address.
    """
    oldest = Now() - timedelta(minutes=settings.IRONAUTH_EMAIL_TOKEN_MIN)
    wanted = EmailToken.objects.filter(user_id=person, purpose=Purpose.CHANGE_EMAIL, created_at__gt=oldest)
    return wanted.order_by("-pk").values("new_email", "created_at")


def _mails(person: Param) -> QuerySet[Any, Any]:
    """Return the person's messages, but for one to an address that they want; see `_wanted_addresses`."""
    mails = OutgoingMail.objects.filter(user_id=person).exclude(kind=Kind.CHANGE_EMAIL).order_by("-pk")
    return mails.values("kind", "recipient", "facts", "created_at", "next_try_at", "tries", "failed_at")


_OF_ANY_EVENT: Final = ("id", "at", "event", "outcome", "actor_id", "user_id", "session_id", "request_id", "details")
#: What became of a message to an address that a person wants; see `_wanted_addresses`.
_OF_A_WANTED_ADDRESS: Final = Q(
    event__in=(audit.Event.MAIL_GIVEN_UP, audit.Event.MAIL_RETRIED), details__kind=Kind.CHANGE_EMAIL
)
_WHENCE: Final = ("address", "user_agent")  # whose they are: the actor's


def _events(events: QuerySet[AuditEvent], *more: str) -> QuerySet[Any, Any]:
    rows: QuerySet[Any, Any] = events.order_by("-id").values(*_OF_ANY_EVENT, *more)
    return rows


def _events_about(person: Param) -> QuerySet[Any, Any]:
    """Return what the person did, or somebody unknown tried, to the account."""
    about = AuditEvent.objects.filter(Q(actor_id=person) | Q(actor_id=None), user_id=person)
    return _events(about.exclude(_OF_A_WANTED_ADDRESS), *_WHENCE)


def _events_by_others(person: Param) -> QuerySet[Any, Any]:
    """Return what staff did to the account; where they did it is other people's data."""
    about = AuditEvent.objects.filter(user_id=person, actor_id__isnull=False).exclude(actor_id=person)
    return _events(about.exclude(_OF_A_WANTED_ADDRESS))


def _events_by(person: Param) -> QuerySet[Any, Any]:
    """Return what the person did to others, or to no account; each half has an index of its own."""
    return _events(AuditEvent.objects.filter(actor_id=person).exclude(user_id=person), *_WHENCE)


def _admin_log(person: Param) -> QuerySet[Any, Any]:
    """Return what the person did in the admin; on which accounts is other people's data."""
    entries = LogEntry.objects.filter(user_id=person).order_by("-pk")
    return entries.values("action_time", "action_flag", "change_message")


def _admin_log_about(_: Param) -> QuerySet[Any, Any]:
    """Return what was done to the account in the admin; the trail says who did it."""
    kind = {"content_type__app_label": User._meta.app_label, "content_type__model": User._meta.model_name}  # noqa: SLF001 - documented by Django
    about = LogEntry.objects.filter(**kind, object_id=_PERSON_TEXT)
    return about.order_by("-pk").values("action_time", "action_flag", "change_message")


def _kept_devices(person: Param) -> QuerySet[Any, Any]:
    return KeptDevice.objects.filter(user_id=person).order_by("-pk").values(
        "id", "created_at", "last_used_at", "expires_at", "user_agent",
    )  # fmt: skip


register("account", _account, User)
register("pending_deletion", _pending_deletion, PendingDeletion)
register("roles", _roles, User.groups.through)
register("permissions", _permissions, User.user_permissions.through)
register("links_in_messages", _links, EmailToken)
register("wanted_addresses", _wanted_addresses, EmailToken)
register("messages_waiting", _mails, OutgoingMail)
for _factor in FACTORS:
    register(_factor.section, _factor.export, _factor.model)
register("kept_devices", _kept_devices, KeptDevice)
register("events", _events_about, AuditEvent)
register("events_by_others", _events_by_others, AuditEvent)
register("events_caused", _events_by, AuditEvent)
register("admin_log", _admin_log, LogEntry)
register("admin_log_about", _admin_log_about, LogEntry)
