"""Units of work: one person moves in. One transaction."""

import uuid

import msgspec
from django.conf import settings

from accounts import email_address as emails
from accounts.audit import recording as audit
from accounts.audit.events import Reason
from accounts.audit.recording import Event
from accounts.outbox import queue as outbox
from accounts.outbox import tokens as email_tokens
from accounts.outbox.kinds import Kind
from accounts.outbox.tokens import Purpose
from accounts.transfer import queries
from accounts.transfer.models import ImportedUser
from accounts.transfer.records import Person
from accounts.users import queries as user_queries


class HasLeftError(Exception):
    """An account here had the address: the transaction that has stored the person ends."""


def move_in(*, person: Person, encoded: str, source: str) -> uuid.UUID | Reason:
    """Store somebody whose password was right in the old system; return the id of the account.

    Of two at the same moment one stores, and both get the account. Where it has got another password meanwhile, that
    one counts: the caller judges what is returned. At most nine queries.

    Args:
        person: As the old system describes them.
        encoded: The hash of the password, made here.
        source: The name of the old system.

    Returns:
        The id; why not, where this person is here by another address.

    Raises:
        IntegrityError: The same person is stored under another address at this moment.
        HasLeftError: An account here had the address. It is looked for after the person is stored: who deletes the
            account at this moment was waited for, and only what begins now sees what that has left.
    """
    key = emails.fold(person.email)
    if queries.is_here_by_another_address(person, source):
        return Reason.HERE_BY_ANOTHER_ADDRESS
    verified = person.email_verified and settings.IRONAUTH_LAZY_MIGRATION_TRUSTS_VERIFIED
    user = queries.user_of(msgspec.structs.replace(person, password_hash=encoded, email_verified=verified))
    if user_queries.add_unless_taken(user):
        if queries.has_left(key):
            raise HasLeftError
        ImportedUser.objects.create(user=user, source=source, external_id=person.external_id)
        if person.totp_secret is not None:
            queries.app_of(user.pk, person.totp_secret).save(force_insert=True)
        if not verified and settings.IRONAUTH_EMAIL_VERIFICATION != "off":
            token_id = email_tokens.issue(purpose=Purpose.VERIFY_EMAIL, user_id=user.pk)
            outbox.enqueue(Kind.VERIFY_EMAIL, recipient=user.email, user_id=user.pk, token_id=token_id)
        details = {"source": source, "email_verified": verified}  # not the id there: it may be an address
        audit.record(Event.USER_MOVED_IN, actor_id=user.pk, user_id=user.pk, details=details)
        return user.pk
    holder = user_queries.lock_holder(key)
    return holder.id if holder else Reason.NO_ACCOUNT
