"""Units of work of a sign-up: an account, and the message that verifies its address. One transaction each."""

import uuid
from typing import NamedTuple

from accounts.audit import recording as audit
from accounts.audit.recording import Event, Outcome
from accounts.email import units as email_units
from accounts.outbox import queue as outbox
from accounts.outbox import tokens as email_tokens
from accounts.outbox.kinds import Kind
from accounts.outbox.tokens import Purpose
from accounts.privacy import terms
from accounts.users import queries as user_queries
from accounts.users.models import User
from accounts.users.outputs import UserOut, user_out


class QuietSignUp(NamedTuple):
    """What a sign-up has made where nobody is told whether the address was taken.

    Attributes:
        user_id: Who it is; None where the address was taken.
        token_id: The message's token; where the address was taken, it opens nothing.
        made_id: The id of the account; where the address was taken, one that nobody has.
        epoch: The epoch of the account.
    """

    user_id: uuid.UUID | None
    token_id: uuid.UUID
    made_id: uuid.UUID
    epoch: int


def create_quietly(
    *, email: str, encoded: str, name: str, with_code: bool = False, page: str = "", page_if_taken: str = ""
) -> QuietSignUp:
    """Create a person and queue the message that verifies the address.

    When the address is taken, its owner gets a message about it, by the same statements.

    Args:
        email: The address, as it was typed.
        encoded: The hash of the password.
        name: What the person is called.
        with_code: Whether the message has a code to type, too.
        page: The route of the page that the link opens; "" for the one that goes on nowhere.
        page_if_taken: The same for the message to the owner of the address, whose link opens nothing by itself.
    """
    user = User.objects.hashed(email=email, encoded=encoded, name=name, **terms.kept())
    added = user_queries.add_unless_taken(user)
    holder = user_queries.lock_holder(user.email_key)
    if added:
        purpose, kind = Purpose.VERIFY_EMAIL, Kind.VERIFY_EMAIL
        user_id, token_id = email_units.ask(holder, purpose, kind, with_code=with_code, page=page)
        audit.record(Event.SIGN_UP, actor_id=user_id, user_id=user_id)
        return QuietSignUp(user_id, token_id, user.pk, user.session_epoch)
    token_id = email_tokens.issue(purpose=Purpose.VERIFY_EMAIL, user_id=None, with_code=with_code)
    recipient = holder.email if holder and holder.is_active else ""
    holder_id = holder.id if holder else None
    facts = {"page": page_if_taken} if page_if_taken else {}
    named = token_id if page_if_taken else None
    outbox.enqueue(Kind.ACCOUNT_EXISTS, recipient=recipient, user_id=holder_id, token_id=named, facts=facts)
    audit.record(Event.SIGN_UP, outcome=Outcome.REFUSED, user_id=holder_id)
    return QuietSignUp(None, token_id, user.pk, user.session_epoch)


def create_unverified(*, email: str, encoded: str, name: str) -> UserOut:
    """Create a person and queue the message that verifies the address.

    Args:
        email: The address, as it was typed.
        encoded: The hash of the password.
        name: What the person is called.

    Raises:
        IntegrityError: The address is taken.
    """
    user = create(email=email, encoded=encoded, name=name)
    token_id = email_tokens.issue(purpose=Purpose.VERIFY_EMAIL, user_id=user.id)
    outbox.enqueue(Kind.VERIFY_EMAIL, recipient=user.email, user_id=user.id, token_id=token_id)
    return user


def create(*, email: str, encoded: str, name: str) -> UserOut:
    """Create a person without roles. Two queries.

    Args:
        email: The address, as it was typed.
        encoded: The hash of the password.
        name: What the person is called.

    Raises:
        IntegrityError: The address is taken.
    """
    user = User.objects.hashed(email=email, encoded=encoded, name=name, **terms.kept())
    user_queries.add(user)
    audit.record(Event.SIGN_UP, actor_id=user.pk, user_id=user.pk)
    return user_out(user, ())
