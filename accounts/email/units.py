"""Units of work behind the messages' tokens: asking for one, and doing what one allows. One transaction each.

Asking runs the same statements whether the address is known or not; for nobody the rows have no user and no
recipient, and delivery drops them.
"""

import uuid

from accounts import email_address as emails
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.email import first_proof
from accounts.errors import InvalidEmailToken, PasswordChanged
from accounts.lockout import throttling
from accounts.outbox import queue as outgoing_mail
from accounts.outbox import tokens as email_tokens
from accounts.outbox.queue import Kind
from accounts.outbox.tokens import FoundToken, Purpose
from accounts.users import queries as user_queries
from accounts.users import units
from accounts.users.models import User


def request_reset(key: str, *, actor_id: uuid.UUID | None = None) -> uuid.UUID | None:
    """Queue a message for who has this folded address and is active; return who that is.

    ``actor_id``: the member of staff who asks for somebody else. Five queries, no matter who it is.
    """
    holder = user_queries.lock_holder(key)
    user_id = ask(holder if holder and holder.is_active else None, Purpose.RESET_PASSWORD, Kind.RESET_PASSWORD)
    audit.record(Event.PASSWORD_RESET_REQUESTED, actor_id=actor_id, user_id=user_id)
    return user_id


def request_verification(key: str, *, actor_id: uuid.UUID | None = None) -> uuid.UUID | None:
    """The same for who has this address, is active and has not verified it yet."""
    holder = user_queries.lock_holder(key)
    waits = holder is not None and holder.is_active and holder.email_verified_at is None
    user_id = ask(holder if waits else None, Purpose.VERIFY_EMAIL, Kind.VERIFY_EMAIL)
    audit.record(Event.VERIFICATION_REQUESTED, actor_id=actor_id, user_id=user_id)
    return user_id


def reset_password(*, found: FoundToken, new: str) -> None:
    """Use the token up and store the hash ``new``: every session ends, and the address counts as verified.

    Failures are forgiven: who guessed the old password knows nothing of the new one. Where nobody had proved the
    address before, a stranger may have made the account: the person starts clean (``first_proof``). An account whose
    address is proved keeps its second factors (ASVS 6.4.3): who reads somebody's mail has not what they sign in with.

    Raises ``InvalidEmailToken`` when the token was used, or its user changed, since it was found.
    """
    user = user_of(found)
    details: dict[str, object] = {"first_proof": user.email_verified_at is None}
    if user.email_verified_at is None:
        removed = first_proof.start_clean(user, encoded=new)
        details |= first_proof.details(removed)
    else:
        removed = ()
        user.password, user.must_change_password = new, False
        user_queries.change(user, {"password", "must_change_password"})
    facts = {"factors_removed": True} if removed else {}
    outgoing_mail.enqueue(Kind.PASSWORD_CHANGED, recipient=user.email, user_id=user.pk, facts=facts)
    throttling.forgive_account(email=user.email, user_id=user.pk)
    audit.record(Event.PASSWORD_RESET, actor_id=user.pk, user_id=user.pk, details=details)


def request_change(*, user_id: uuid.UUID, old: str, new_email: str, session_id: uuid.UUID | None) -> None:
    """Queue the message that confirms a new address, and one to the present address that tells of it.

    Another account's address gets a message that there is an account already. ``old``: the hash the password was right
    for; ``session_id``: the session it is done in. Raises ``NotAuthenticated`` when the user is gone or inactive,
    ``PasswordChanged``.
    """
    user, holder = _locked(user_id, emails.fold(new_email))
    if user.password != old:
        raise PasswordChanged
    token_id = email_tokens.issue(purpose=Purpose.CHANGE_EMAIL, user_id=user_id, new_email=new_email)
    if holder is None:
        outgoing_mail.enqueue(Kind.CHANGE_EMAIL, recipient=new_email, user_id=user_id, token_id=token_id)
    else:  # nobody ever sees the token
        recipient = holder.email if holder.is_active else ""
        outgoing_mail.enqueue(Kind.ACCOUNT_EXISTS, recipient=recipient, user_id=holder.pk)
    outgoing_mail.enqueue(Kind.EMAIL_CHANGE_REQUESTED, recipient=user.email, user_id=user_id)
    audit.record(Event.EMAIL_CHANGE_REQUESTED, actor_id=user_id, user_id=user_id, session_id=session_id)


def ask(holder: user_queries.Holder | None, purpose: Purpose, kind: Kind) -> uuid.UUID | None:
    """Issue a token for ``holder``, or for nobody, and queue its message. Three queries."""
    user_id = holder.id if holder else None
    token_id = email_tokens.issue(purpose=purpose, user_id=user_id)
    outgoing_mail.enqueue(kind, recipient=holder.email if holder else "", user_id=user_id, token_id=token_id)
    return user_id


def _locked(user_id: uuid.UUID, key: str) -> tuple[User, User | None]:
    """Return the active user, and who else has this folded address, both locked; as ``units.locked`` otherwise.

    In the order of their ids, so that two people who ask for each other's address never wait in a circle.
    """
    found = units.credentials_of_email(key)
    other_id = found.id if found and found.id != user_id else None
    other = user_queries.lock(other_id) if other_id and other_id < user_id else None
    user = units.locked(user_id)
    if other_id and other_id > user_id:
        other = user_queries.lock(other_id)
    return user, other if other and other.email_key == key else None  # gone, or moved on, meanwhile


def user_of(found: FoundToken) -> User:
    """Return the token's user, locked, after using the token up. Raises ``InvalidEmailToken`` when either is gone."""
    user = user_queries.lock(found.user_id)
    if user is None or not user.is_active or not email_tokens.consume(found.id):
        raise InvalidEmailToken
    return user
