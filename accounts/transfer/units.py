"""Units of work: people written a batch at a time, and taken back; one transaction each."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, QuerySet

from accounts import email_address as emails
from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.audit.recording import Event, Outcome
from accounts.federation.models import Identity
from accounts.mfa.recovery.models import RecoveryCode
from accounts.mfa.totp.models import TotpFactor
from accounts.profile import fitting
from accounts.transfer import queries
from accounts.transfer.models import ImportedUser, UserImport
from accounts.transfer.queries import app_of, user_of
from accounts.transfer.records import CREATED, IN_USE, UNCHANGED, UPDATED, Link, Note, Person, Reason
from accounts.users.models import User
from ironauth.infrastructure.core import clock

BATCH: Final = 500  # people in one transaction; others write between two
BEGINNING: Final = uuid.UUID(int=0)


class Known(NamedTuple):
    """What is here already of a batch: accounts by the id of the source, and addresses by their folded form.

    ``identities``: whose each identity is, by issuer and subject.
    """

    by_external_id: Mapping[str, uuid.UUID]
    keys: Mapping[str, uuid.UUID]
    identities: Mapping[tuple[str, str], uuid.UUID]


def known(source: str, people: Sequence[Person]) -> Known:
    """Return which of ``people`` are imported already, and which addresses and identities are taken. Three queries.

    Args:
        source: The name of the other system.
        people: One batch of them.
    """
    ids = [person.external_id for person in people]
    imported = ImportedUser.objects.filter(source=source, external_id__in=ids).values_list("external_id", "user_id")
    keys = [emails.fold(person.email) for person in people]
    taken = User.objects.filter(email_key__in=keys).order_by().values_list("email_key", "pk")
    links = [link for person in people for link in person.links]
    found = Identity.objects.filter(subject__in={link.subject for link in links}) if links else Identity.objects.none()
    held = {(issuer, subject): pk for issuer, subject, pk in found.values_list("issuer", "subject", "user_id")}
    return Known(dict(imported), dict(taken), held)


class Written(NamedTuple):
    """What became of one record: an outcome or the code of a ``Reason``, and the account, where there is one.

    ``notes``: what became of the identities.
    """

    outcome: str
    user_id: uuid.UUID | None = None
    notes: frozenset[Note] = frozenset()


def judge(person: Person, here: Known) -> Written:
    """Return what importing ``person`` would do; somebody who is imported already has their account in it.

    Args:
        person: Somebody of the export.
        here: What ``known`` returned for a batch with this person.
    """
    if person.external_id in here.by_external_id:
        return Written(UNCHANGED, here.by_external_id[person.external_id])
    if emails.fold(person.email) in here.keys:
        return Written(Reason.TAKEN.value)
    return Written(CREATED, notes=_notes(person, here))


def _free(person: Person, here: Known) -> list[Link]:
    """Return the identities that no account has: one that is held stays where it is."""
    return [link for link in person.links if (link.issuer, link.subject) not in here.identities]


def _notes(person: Person, here: Known) -> frozenset[Note]:
    """Return what becomes of the identities of somebody new."""
    free = _free(person, here)
    linked = {Note.IDENTITY_LINKED} if free else set()
    return frozenset(linked | ({Note.IDENTITY_TAKEN} if len(free) < len(person.links) else set()))


def _link(user_id: uuid.UUID, links: Iterable[Link]) -> list[Identity]:
    """Return unsaved identities of an account."""
    return [
        Identity(
            user_id=user_id,
            provider_id=link.provider_id,
            issuer=link.issuer,
            subject=link.subject,
            email=link.email,
        )
        for link in links
    ]


def write(run: UserImport, people: Sequence[Person], *, update: bool) -> dict[str, Written]:
    """Create or update ``people``, of different ids and addresses; return what became of each by the source's id.

    If somebody signs up under one of the addresses at the same moment, the people of the batch are written one by one.

    Args:
        run: The import, which each new account refers to.
        people: One batch of them.
        update: Whether accounts of an earlier import are changed.
    """
    try:
        with transaction.atomic():
            return _write(run, people, update=update)
    except IntegrityError:
        if len(people) == 1:
            return {people[0].external_id: Written(Reason.TAKEN.value)}
        return {key: value for one in people for key, value in write(run, [one], update=update).items()}


def _write(run: UserImport, people: Sequence[Person], *, update: bool) -> dict[str, Written]:
    here = known(run.source, people)
    written = {person.external_id: judge(person, here) for person in people}
    new = [person for person in people if written[person.external_id].outcome == CREATED]
    users = [user_of(person) for person in new]
    User.objects.bulk_create(users)
    ImportedUser.objects.bulk_create(
        ImportedUser(user=user, source=run.source, external_id=person.external_id, run=run)
        for user, person in zip(users, new, strict=True)
    )
    TotpFactor.objects.bulk_create(
        app_of(user.pk, person.totp_secret)
        for user, person in zip(users, new, strict=True)
        if person.totp_secret is not None
    )
    made = list(zip(users, new, strict=True))
    RecoveryCode.objects.bulk_create(code for user, person in made for code in queries.codes_of(user.pk, person))
    # One that somebody links at this moment is theirs.
    identities = [identity for user, person in made for identity in _link(user.pk, _free(person, here))]
    Identity.objects.bulk_create(identities, ignore_conflicts=True)
    written |= {person.external_id: written[person.external_id]._replace(user_id=user.pk) for user, person in made}
    if update:
        again = [person for person in people if written[person.external_id].outcome == UNCHANGED]
        written |= _update(again, here)
    return written


def _update(people: Iterable[Person], here: Known) -> dict[str, Written]:
    """Write what the source says now about people imported before who have not signed in since."""
    by_id = {here.by_external_id[person.external_id]: person for person in people}
    rows = {user.pk: user for user in untouched(User.objects.filter(pk__in=by_id).select_for_update(of=("self",)))}
    stopped = _stopped(user for user in rows.values() if not user.is_active and by_id[user.pk].is_active)
    written = {}
    for user_id, person in by_id.items():
        user = rows.get(user_id)
        if user is None:
            written[person.external_id] = Written(IN_USE, user_id)
            continue
        fresh = user_of(person)
        changed = [
            name
            for name in ("name", *fitting(person.profile), "is_active", *(["password"] if person.password_hash else []))
            if getattr(user, name) != getattr(fresh, name) and not (name == "is_active" and user_id in stopped)
        ]
        if fresh.email_verified_at and not user.email_verified_at and user.email_key == fresh.email_key:
            changed.append("email_verified_at")
        for name in changed:
            setattr(user, name, getattr(fresh, name))
        if changed:
            user.save(update_fields=changed)
        notes = _link_anew(user_id, person, here)
        outcome = UPDATED if changed or Note.IDENTITY_LINKED in notes else UNCHANGED
        written[person.external_id] = Written(outcome, user_id, notes)
    return written


def _stopped(users: Iterable[User]) -> set[uuid.UUID | None]:
    """Return those of ``users`` that staff have deactivated: whether they come back, the source does not decide.

    One query, none for nobody.
    """
    ids = [user.pk for user in users]
    ends = AuditEvent.objects.filter(user_id__in=ids, event=Event.USER_CHANGED, details__is_active=False)
    return set(ends.values_list("user_id", flat=True)) if ids else set()


def _link_anew(user_id: uuid.UUID, person: Person, here: Known) -> frozenset[Note]:
    """Link the identities that somebody imported before lacks, at providers where they have none."""
    has = set(Identity.objects.filter(user_id=user_id).values_list("provider_id", flat=True)) if person.links else set()
    lacking = [link for link in _free(person, here) if link.provider_id not in has]
    Identity.objects.bulk_create(_link(user_id, lacking), ignore_conflicts=True)
    others = [
        pk for link in person.links if (pk := here.identities.get((link.issuer, link.subject), user_id)) != user_id
    ]
    linked = {Note.IDENTITY_LINKED} if lacking else set()
    return frozenset(linked | ({Note.IDENTITY_TAKEN} if others else set()))


def untouched(users: "QuerySet[User]") -> "QuerySet[User]":
    """Return those of ``users`` who have done nothing here: no act of theirs is in the trail, and no sign-in.

    Nobody whose import is older than the trail: it may have forgotten what they did. Nobody who is being deleted, as
    the owner of a mailbox can have it: they would be let in again, and stay for good.
    """
    own = AuditEvent.objects.filter(actor_id=OuterRef("pk"), outcome=Outcome.SUCCESS)
    remembered = clock.now() - timedelta(days=settings.IRONAUTH_AUDIT_KEEP_DAYS)
    here = users.filter(~Exists(own), last_login=None, pending_deletion__isnull=True)
    return here.filter(imported__run__started_at__gt=remembered)


def finish(run: UserImport, counts: Mapping[str, int]) -> None:
    """Note that ``run`` has ended, and how many records had each outcome; leave an event in the trail.

    Args:
        run: The import.
        counts: How many records had each outcome.
    """
    UserImport.objects.filter(pk=run.pk).update(finished_at=clock.now(), counts=dict(counts))
    details = {"import": str(run.pk), "source": run.source, "counts": [f"{key}: {n}" for key, n in counts.items()]}
    audit.record(Event.USERS_IMPORTED, details=details)


def take_back(run: UserImport, after: uuid.UUID) -> tuple[int, int, uuid.UUID | None]:
    """Delete the next accounts that ``run`` made and whose people have done nothing here.

    Args:
        run: The import.
        after: The user id that the last batch ended with; ``BEGINNING`` for the first.

    Returns:
        How many were deleted, how many are kept because they were used, and where the next batch begins; None at the
        end.
    """
    with transaction.atomic():
        imported = ImportedUser.objects.filter(run=run, user_id__gt=after).order_by("user_id")
        ids = list(imported.values_list("user_id", flat=True)[:BATCH])
        locked = User.objects.filter(pk__in=ids).select_for_update(of=("self",))
        idle = list(untouched(locked))
        fresh = queries.unnoted(user.email_key for user in idle)
        User.objects.filter(pk__in=[user.pk for user in idle]).delete()
        queries.forget_left(fresh)  # as if they had never been imported: the old system may be asked for them
    return len(idle), len(ids) - len(idle), ids[-1] if ids else None


def undone(run: UserImport, deleted: int, kept: int) -> None:
    """Note that ``run`` was taken back, and leave an event in the trail.

    Args:
        run: The import.
        deleted: How many accounts went.
        kept: How many stay, because they were used.
    """
    UserImport.objects.filter(pk=run.pk).update(undone_at=clock.now())
    audit.record(Event.IMPORT_UNDONE, details={"import": str(run.pk), "deleted": deleted, "kept": kept})
