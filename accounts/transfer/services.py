"""Moving everybody of a source in: judged one by one, written by the batch. Blocking; for commands."""

import hashlib
import unicodedata
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from django.core.exceptions import ValidationError
from django.db import transaction

from accounts import email_address as emails
from accounts import names
from accounts.mfa.recovery import brought
from accounts.mfa.recovery import codes as recovery_codes
from accounts.mfa.totp.codes import LEAST_SECRET_BYTES, MOST_SECRET_BYTES
from accounts.profile import fitting
from accounts.transfer import records, units
from accounts.transfer.identities import IdentityMap, Matched
from accounts.transfer.models import MAX_EXTERNAL_ID, UserImport
from accounts.transfer.records import Note, OwnCode, Person, Reason, Refused, password_of
from accounts.transfer.units import BATCH


class RecordOutcome(NamedTuple):
    """What became of one record."""

    number: int  # its place in the file, from 1
    external_id: str
    outcome: str
    notes: frozenset[Note] = frozenset()
    user_id: uuid.UUID | None = None  # the account here, where there is one
    email: str = ""  # as the file has it; of a record that no person could be read from, nothing


def import_people(
    found: Iterable[Person | Refused],
    *,
    source: str,
    run: UserImport | None,
    update: bool = False,
    identities: IdentityMap | None = None,
    tell: Callable[[RecordOutcome], None] = lambda _: None,
) -> Counter[str]:
    """Write everybody found; return how many records had each outcome and note.

    Args:
        found: The records of a source, in the order of its file.
        source: Its name.
        run: What new accounts are noted under; None judges and writes nothing.
        update: Whether people imported before are brought up to what the source says now.
        identities: Which provider here theirs are of; None where only an issuer says it.
        tell: Called with each record's outcome, in the order of the records.
    """
    counts: Counter[str] = Counter()
    known_as = identities or IdentityMap()
    seen: set[bytes] = set()
    batch: list[tuple[int, str, Person | Refused]] = []  # in the order of the file, and told in it, with the address

    def told(one: RecordOutcome) -> None:
        counts[one.outcome] += 1
        counts.update(sorted(note.value for note in one.notes))
        tell(one)

    def flush() -> None:
        people = [one for _number, _email, one in batch if isinstance(one, Person)]
        if run is None:
            here = units.known(source, people)
            outcomes = {person.external_id: units.judge(person, here) for person in people}
        else:
            outcomes = units.write(run, people, update=update)
        for number, email, one in batch:
            if isinstance(one, Refused):
                told(RecordOutcome(number, one.external_id, one.reason.value, email=email))
                continue
            outcome, user_id, notes = outcomes[one.external_id]
            notes |= one.notes if outcome == records.CREATED else frozenset()
            told(RecordOutcome(number, one.external_id, outcome, notes, user_id, email))
        batch.clear()

    for number, record in enumerate(found, start=1):
        one = record if isinstance(record, Refused) else judged(record, seen, known_as)
        batch.append((number, getattr(record, "email", ""), one))
        if len(batch) == BATCH:
            flush()
    if batch:
        flush()
    if run is not None:
        with transaction.atomic():
            units.finish(run, counts)
    return counts


def judged(person: Person, seen: set[bytes], identities: IdentityMap | None = None) -> Person | Refused:
    """Return ``person`` as it is stored, or why not.

    Args:
        person: As the other system describes them.
        seen: Digests of the ids, addresses and identities before it; this one's are added.
        identities: Which provider here theirs are of; None: none come along, as at a first sign-in.
    """
    if not 0 < len(person.external_id) <= MAX_EXTERNAL_ID or "\x00" in person.external_id:
        return Refused(person.external_id[:MAX_EXTERNAL_ID], Reason.NO_ID)
    if not person.email:
        return Refused(person.external_id, Reason.NO_EMAIL)
    email = emails.normalise(person.email)
    try:
        emails.validate_new(email)
    except ValidationError:
        return Refused(person.external_id, Reason.BAD_EMAIL)
    for text, reason in (("i" + person.external_id, Reason.ID_DUPLICATE), ("e" + emails.fold(email), Reason.DUPLICATE)):
        if _is_seen(text, seen):
            return Refused(person.external_id, reason)
    name, notes = _name(person.name)
    profile = fitting(person.profile)
    if any(field != "language" and field not in profile for field in person.profile):
        notes |= {Note.PROFILE}
    secret = person.totp_secret
    if secret is not None and not LEAST_SECRET_BYTES <= len(secret) <= MOST_SECRET_BYTES:
        secret, notes = None, notes | {Note.TOTP_SECRET}
    digests, own, code_notes = _codes(person, has_app=secret is not None)
    matched = Matched() if identities is None else identities.match(person.identities)
    links = tuple(link for link in matched.links if not _is_seen(f"l{link.issuer}\n{link.subject}", seen))
    notes |= code_notes | matched.notes | ({Note.IDENTITY_TAKEN} if len(links) < len(matched.links) else set())
    if not person.email_verified and emails.is_proof_awaited(None):
        notes |= {Note.UNCONFIRMED}
    if not person.is_active:
        notes |= {Note.INACTIVE}
    return Person(
        external_id=person.external_id,
        email=email,
        email_verified=person.email_verified,
        name=name,
        profile=profile,
        is_active=person.is_active,
        created_at=person.created_at,
        password_hash=person.password_hash,
        totp_secret=secret,
        code_digests=digests,
        own_codes=own,
        links=links,
        notes=person.notes | notes,
    )


def _is_seen(text: str, seen: set[bytes]) -> bool:
    """Tell whether this was there before, and remember it."""
    digest = hashlib.blake2b(text.encode(), digest_size=12).digest()
    was_there = digest in seen
    seen.add(digest)
    return was_there


def _codes(person: Person, *, has_app: bool) -> tuple[tuple[bytes, ...], tuple[OwnCode, ...], frozenset[Note]]:
    """Return the recovery codes that somebody may bring, and why none."""
    digests, own = person.code_digests, person.own_codes
    if not digests and not own:
        return (), (), frozenset()
    if not has_app:
        return (), (), frozenset({Note.RECOVERY_CODES_ALONE})
    stored = tuple(OwnCode(code.selector, password_of(code.encoded)[0] or "") for code in own)
    if (
        len(digests) + len(own) > brought.MOST
        or any(len(digest) != brought.DIGEST_BYTES for digest in digests)
        or len({code.selector for code in own}) < len(own)
        or not all(code.encoded and recovery_codes.is_selector(code.selector) for code in stored)
    ):
        return (), (), frozenset({Note.RECOVERY_CODES})
    return digests, stored, frozenset({Note.RECOVERY_CODES_BROUGHT})


def _name(given: str) -> tuple[str, frozenset[Note]]:
    """Return a name that an account may have, and whether it had to be changed for it."""
    name = names.normalise(given[: names.MAX_RAW_LENGTH])
    try:
        names.validate(name)
    except ValidationError:
        kept = "".join(c for c in name if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp"))
        kept = names.normalise(kept[: names.MAX_LENGTH])
        return "" if names.is_unseen(kept) else kept, frozenset({Note.NAME_CHANGED})
    return name, frozenset({Note.NAME_CHANGED} if len(given) > names.MAX_RAW_LENGTH else ())


def undo(run: UserImport, tell: Callable[[int, int], None] = lambda *_: None) -> tuple[int, int]:
    """Take back the accounts of ``run`` whose people have done nothing here; return how many went and how many stay.

    Args:
        run: The import to take back.
        tell: Called after each batch with how many went and how many stay so far.
    """
    deleted = kept = 0
    after = units.BEGINNING
    while True:
        gone, stay, last = units.take_back(run, after)
        deleted, kept = deleted + gone, kept + stay
        tell(deleted, kept)
        if last is None:
            break
        after = last
    with transaction.atomic():
        units.undone(run, deleted, kept)
    return deleted, kept
