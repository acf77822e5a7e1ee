"""Units of work on one person's own account: synchronous, one transaction each, run by the database pool.

None of them hashes: hashing has its own pool, and a transaction must not wait for it.
"""

import uuid
from collections.abc import Mapping

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.errors import PasswordChanged
from accounts.outbox import queue as outbox
from accounts.outbox.kinds import Kind
from accounts.users import queries as user_queries
from accounts.users import rules as user_rules
from accounts.users.models import User
from accounts.users.outputs import Account, UserOut, account
from ironauth.infrastructure.core.errors import NotAuthenticated


def set_profile(*, user_id: uuid.UUID, values: Mapping[str, str], session_id: uuid.UUID | None) -> UserOut:
    """Set what a person says of themselves.

    Args:
        user_id: The person who is signed in.
        values: The new values, validated, by the names of columns of ``profile.Profile``; at least one.
        session_id: The session it is done in, for the trail.

    Raises:
        NotAuthenticated: The user is gone or inactive.
    """
    audit.record_own(Event.PROFILE_CHANGED, user_id, session_id, fields=sorted(values))
    user_queries.set_profile(user_id, values)
    account = user_queries.account_snapshot(user_id)
    if account is None:
        raise NotAuthenticated(user_queries.GONE)
    return account.user


def set_language(*, user_id: uuid.UUID, language: str, session_id: uuid.UUID | None) -> None:
    """Set the language of pages and messages. Three queries.

    Args:
        user_id: The person who is signed in.
        language: One of the languages of ``LANGUAGES``.
        session_id: The session it is done in, for the trail.

    Raises:
        NotAuthenticated: The user is gone or inactive.
    """
    audit.record_own(Event.PROFILE_CHANGED, user_id, session_id, fields=["language"])
    user_queries.set_language(user_id, language)


def set_password(*, user_id: uuid.UUID, old: str, new: str, session_id: uuid.UUID | None) -> Account:
    """Store the hash ``new`` in place of ``old``, end every session, and have the owner told.

    Args:
        user_id: The person.
        old: The stored hash that the present password was right for.
        new: The hash of the new password.
        session_id: The session it is done in, for the trail.

    Raises:
        NotAuthenticated: The user is gone or inactive.
        PasswordChanged: Another request was faster.
    """
    user = user_rules.locked(user_id)
    if user.password != old:
        raise PasswordChanged
    user.password, user.must_change_password = new, False
    user_queries.change(user, ["password", "must_change_password"])
    outbox.enqueue(Kind.PASSWORD_CHANGED, recipient=user.email, user_id=user_id)
    audit.record_own(Event.PASSWORD_CHANGED, user_id, session_id)
    return account(user, user_queries.role_names(user_id))


def upgrade_hash(*, user_id: uuid.UUID, old: str, new: str) -> bool:
    """Store a costlier hash of the same password, unless it was changed meanwhile. One query.

    Args:
        user_id: The person.
        old: The stored hash that the password was right for.
        new: A hash of the same password at the costs of today.
    """
    return User.objects.get_queryset().upgrade_hash(user_id, old, new)


def flag_password(found: user_queries.Credentials) -> None:
    """Note that the password is in the list of breached ones and have its owner told, once for each password.

    Three queries, one when it was noted before or the password has changed meanwhile.
    """
    if user_queries.flag_password(found.id, found.session_epoch):
        outbox.enqueue(Kind.PASSWORD_FLAGGED, recipient=found.email, user_id=found.id)
        audit.record(Event.PASSWORD_FLAGGED, user_id=found.id)


def end_all_sessions(*, user_id: uuid.UUID, session_id: uuid.UUID | None) -> None:
    """Raise the session epoch: every token made before is dead.

    Args:
        user_id: The person who is signed in.
        session_id: The session it is done in, for the trail; it ends as well.

    Raises:
        NotAuthenticated: The user is gone or inactive.
    """
    user_queries.end_sessions(user_id, if_active=True)
    audit.record_own(Event.SIGN_OUT_EVERYWHERE, user_id, session_id)
