"""Units of work on recovery codes: new ones in place of the older, and their end with the last factor."""

import uuid
from collections.abc import Mapping
from datetime import datetime

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.mfa.errors import MfaNotEnabled
from accounts.mfa.kept_devices import queries as kept_devices
from accounts.mfa.recovery.models import RecoveryCode
from accounts.outbox import queue as outbox
from accounts.outbox.kinds import Kind
from accounts.users import rules as user_rules
from accounts.users import second_factors
from ironauth.infrastructure.core import clock

type Hashes = Mapping[str, str]  # of recovery codes, by selector


def replace_codes(*, user_id: uuid.UUID, old: str, hashes: Hashes, session_id: uuid.UUID | None) -> None:
    """Store new recovery codes in place of all older ones; the person gets a message.

    Args:
        user_id: Whose they are.
        old: The hash the password was right for.
        hashes: Of the new codes.
        session_id: The session it is done in.

    Raises:
        MfaNotEnabled: There is no factor to stand in for.
        PasswordChanged: The password was changed meanwhile.
        NotAuthenticated: The user is gone or inactive.
    """
    user = user_rules.confirmed(user_id, old)
    if not second_factors.methods_of(user_id):
        raise MfaNotEnabled
    store_codes(user_id, hashes)
    kept_devices.end_all_of(user_id)
    outbox.enqueue(Kind.RECOVERY_CODES_CREATED, recipient=user.email, user_id=user_id)
    audit.record_own(Event.RECOVERY_CODES_CREATED, user_id, session_id)


def forget_idle_codes(user_id: uuid.UUID) -> None:
    """Delete the recovery codes of somebody who has no factor that they could stand in for. Two queries at most."""
    if not second_factors.methods_of(user_id):
        RecoveryCode.objects.filter(user_id=user_id).delete()


def store_codes(user_id: uuid.UUID, hashes: Hashes) -> None:
    """Store recovery codes in place of all older ones. Two queries.

    Args:
        user_id: The person whose codes they are.
        hashes: The hash of each code by its selector, the part that finds it.
    """
    now: datetime = clock.now()
    RecoveryCode.objects.filter(user_id=user_id).delete()
    RecoveryCode.objects.bulk_create(
        RecoveryCode(user_id=user_id, selector=selector, encoded=encoded, created_at=now)
        for selector, encoded in hashes.items()
    )
