"""What units of any room ask and write about people who come from elsewhere, inside their transaction."""

import uuid
from collections.abc import Iterable
from typing import Final

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.db import DEFAULT_DB_ALIAS
from django.db.models import Q

from accounts import email_address as emails
from accounts.mfa.recovery import brought
from accounts.mfa.recovery.models import RecoveryCode
from accounts.mfa.totp import codes as totp
from accounts.mfa.totp.models import TotpFactor
from accounts.profile import fitting
from accounts.transfer.models import ImportedUser, LeftAddress
from accounts.transfer.records import Person
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.crypto.master_keys import mac, newest_master_key_id, register_purpose

_PURPOSE: Final = register_purpose("ironauth address of an account that is gone")


def user_of(person: Person) -> User:
    """Return the unsaved account of somebody from elsewhere.

    Args:
        person: As they are there; ``password_hash`` is None for somebody who chooses a password by mail.
    """
    now = clock.now()
    email = emails.normalise(person.email)
    return User(
        email=email,
        email_key=emails.fold(email),
        name=person.name,
        **fitting(person.profile),
        password=person.password_hash or make_password(None),
        is_active=person.is_active,
        email_verified_at=(person.created_at or now) if person.email_verified else None,
        created_at=person.created_at or now,
        updated_at=now,
    )


def app_of(user_id: uuid.UUID, secret: bytes) -> TotpFactor:
    """Return the unsaved authenticator app of an account that comes from elsewhere.

    Args:
        user_id: The account.
        secret: What the app and the other system share, in bytes.
    """
    key_id, sealed = totp.seal(secret, user_id)
    return TotpFactor(user_id=user_id, sealed=sealed, master_key_id=key_id, confirmed_at=clock.now())


def codes_of(user_id: uuid.UUID, person: Person) -> list[RecoveryCode]:
    """Return the unsaved recovery codes of an account that comes from elsewhere.

    Args:
        user_id: The account, which has none yet.
        person: As they are there, judged.
    """
    own = [RecoveryCode(user_id=user_id, selector=code.selector, encoded=code.encoded) for code in person.own_codes]
    return own + brought.rows_of(user_id, person.code_digests)


def is_here_by_another_address(person: Person, source: str) -> bool:
    """Tell whether the person of this id there has an account here whose address is another one. One query.

    Args:
        person: As they are there.
        source: The name of the other system.
    """
    same = ImportedUser.objects.filter(source=source, external_id=person.external_id)
    return same.exclude(user__email_key=emails.fold(person.email)).exists()


def note_left(user_ids: Iterable[uuid.UUID]) -> None:
    """Remember the addresses of these accounts, which are about to lose them. Two queries.

    One that nobody has proved is not remembered, or a stranger who signs up with it and leaves would keep its owner
    out. It is where the account came from the old system, or was deactivated.

    Args:
        user_ids: People whose accounts are deleted or get another address, in this transaction.
    """
    theirs = Q(email_verified_at__isnull=False) | Q(imported__isnull=False) | Q(is_active=False)
    keys = User.objects.filter(theirs, pk__in=list(user_ids)).order_by().values_list("email_key", flat=True)
    newest = newest_master_key_id()
    rows = [LeftAddress(digest=_digest(key, newest)) for key in keys if not emails.is_stand_in(key)]
    LeftAddress.objects.bulk_create(rows, ignore_conflicts=True)


def has_left(key: str) -> bool:
    """Tell whether an account here has had this folded address and lost it. One query."""
    return LeftAddress.objects.filter(digest__in=_digests(key)).exists()


def unnoted(keys: Iterable[str]) -> list[str]:
    """Return those folded addresses of which `has_left` is false. One query."""
    digests = {digest: key for key in keys for digest in _digests(key)}
    known = set(LeftAddress.objects.filter(digest__in=digests).values_list("digest", flat=True))
    noted = {digests[digest] for digest in known}
    return [key for key in dict.fromkeys(digests.values()) if key not in noted]


def forget_left(keys: Iterable[str]) -> None:
    """Forget these folded addresses. One query."""
    LeftAddress.objects.filter(digest__in=[digest for key in keys for digest in _digests(key)]).delete()


def purge_left(*, batch: int) -> int:
    """Delete at most ``batch`` remembered addresses, whatever their age; return how many."""
    found = list(LeftAddress.objects.order_by("pk").values_list("pk", flat=True)[:batch])
    return LeftAddress.objects.filter(pk__in=found)._raw_delete(DEFAULT_DB_ALIAS) if found else 0  # noqa: SLF001 - nothing hangs on one


def _digests(key: str) -> list[str]:
    """Return what a folded address is remembered as, under each master key."""
    return [_digest(key, key_id) for key_id in settings.IRONAUTH_MASTER_KEYS]


def _digest(key: str, master_key_id: str) -> str:
    return mac(_PURPOSE, key.encode(), master_key_id).hex()
