"""Units of work on passkeys: whose a credential is, adding one. Synchronous, one transaction each."""

import uuid
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db import models

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.mfa.kept_devices import queries as kept_devices
from accounts.mfa.outputs import PasskeyOut
from accounts.mfa.passkeys.challenges import Challenge
from accounts.mfa.passkeys.errors import PasskeyNotMade, PasskeyTaken, TooManyPasskeys
from accounts.mfa.passkeys.facts import Known, NewCredential
from accounts.mfa.passkeys.models import Passkey
from accounts.mfa.recovery import units as recovery_units
from accounts.mfa.recovery.units import Hashes
from accounts.outbox import queue as outbox
from accounts.outbox.kinds import Kind
from accounts.users import queries as user_queries
from accounts.users import rules as user_rules
from accounts.users import second_factors
from ironauth.infrastructure.core.errors import NotAuthenticated
from ironauth.infrastructure.db import single_use
from ironauth.infrastructure.db.compiled import CompiledSelect, Param

MOST: Final = 10  # of one person: every device and two keys in a drawer; what is listed stays short
#: Names what is used up beside other kinds of tokens.
ONCE: Final = "passkey"
#: Names a passkey among the ways in.
WAY_IN: Final = "passkey"


class Stored(NamedTuple):
    """A passkey as it was read, and whose it is."""

    id: uuid.UUID
    user_id: uuid.UUID
    public_key: bytes
    sign_count: int
    backup_eligible: bool
    backed_up: bool
    last_used_at: datetime | None


class Holder(NamedTuple):
    """The person who is about to add a passkey, and what they have."""

    email: str
    name: str
    methods: tuple[str, ...]
    passkeys: tuple[Known, ...]


_BY_CREDENTIAL: Final = CompiledSelect(
    lambda: (
        Passkey.objects.filter(credential_id=Param("credential_id", models.BinaryField()))
        .order_by()
        .values_list(*Stored._fields)
    )
)
_KNOWN: Final = CompiledSelect(
    lambda: (
        Passkey.objects.filter(user_id=Param("user_id", models.UUIDField()))
        .order_by("pk")
        .values_list("credential_id", "transports")
    )
)


def find(credential_id: bytes) -> Stored | None:
    """Return the passkey of this credential, if there is one. One query."""
    rows = _BY_CREDENTIAL.rows(credential_id=credential_id)
    if not rows:
        return None
    found = Stored(*rows[0])
    return found._replace(public_key=bytes(found.public_key))  # drivers may return a memoryview


def known_of(user_id: uuid.UUID) -> tuple[Known, ...]:
    """Return the person's credentials, the newest last. One query."""
    return tuple(Known(bytes(credential_id), transports) for credential_id, transports in _KNOWN.rows(user_id=user_id))


def holder(user_id: uuid.UUID) -> Holder:
    """Return who is about to add a passkey. Two queries.

    Raises:
        NotAuthenticated: The user is gone or inactive.
        TooManyPasskeys: They have as many as one may have.
    """
    found = user_queries.credentials_of_id(user_id)
    if found is None or not found.is_active:
        raise NotAuthenticated
    present = known_of(user_id)
    if len(present) >= MOST:
        raise TooManyPasskeys
    return Holder(found.email, found.name, found.methods, present)


def add(
    *,
    user_id: uuid.UUID,
    challenge: Challenge,
    credential: NewCredential,
    name: str,
    hashes: Hashes | None,
    session_id: uuid.UUID | None,
    epoch: int | None = None,
) -> tuple[PasskeyOut, bool]:
    """Store a passkey; return it, and whether the recovery codes of ``hashes`` were stored with it.

    They are when it is the first factor.

    Args:
        user_id: The person who is signed in.
        challenge: The challenge that was answered; it is used up.
        credential: What the authenticator made, verified.
        name: The name to tell it by.
        hashes: Of new recovery codes, in case it is the first factor; None where it cannot be.
        session_id: The session it is done in, for the trail.
        epoch: The epoch that the session was opened in; None where no session has to be alive.

    Raises:
        PasskeyNotMade: The challenge was used before.
        TooManyPasskeys, PasskeyTaken, NotAuthenticated: As for ``services.add``.
    """
    user = user_rules.locked(user_id, epoch=epoch)
    if not single_use.consume(ONCE, challenge.id, challenge.expires_at):
        raise PasskeyNotMade
    if Passkey.objects.filter(user_id=user_id).count() >= MOST:
        raise TooManyPasskeys
    if Passkey.objects.filter(credential_id=credential.credential_id).exists():
        raise PasskeyTaken
    with_codes = hashes is not None and not second_factors.methods_of(user_id)
    passkey = Passkey.objects.create(user_id=user_id, name=name, **credential._asdict())
    if hashes is not None and with_codes:
        recovery_units.store_codes(user_id, hashes)
    kept_devices.end_all_of(user_id)
    outbox.enqueue(Kind.PASSKEY_ADDED, recipient=user.email, user_id=user_id)
    audit.record_own(Event.PASSKEY_ADDED, user_id, session_id, passkey=str(passkey.pk))
    return PasskeyOut(passkey.pk, passkey.name, passkey.created_at, None), with_codes


def rename(*, user_id: uuid.UUID, passkey_id: uuid.UUID, name: str) -> PasskeyOut | None:
    """Give one of a person's passkeys another name; None when they have no such passkey. Two queries, one for none.

    Args:
        user_id: The person who is signed in.
        passkey_id: Which passkey; it has to be theirs.
        name: The new name, validated.
    """
    mine = Passkey.objects.filter(pk=passkey_id, user_id=user_id)
    if not mine.update(name=name):
        return None
    row = mine.get()
    return PasskeyOut(row.pk, row.name, row.created_at, row.last_used_at)


def usable(user_id: Any) -> models.QuerySet[Passkey]:
    """Return the query of the passkeys that somebody can sign in with.

    Args:
        user_id: Who it is, or an expression for it.
    """
    return Passkey.objects.filter(user_id=user_id)
