"""Units of work behind the link that confirms an address: what it is about, and what it does. One transaction each.

A click shows that somebody reads the mail of the address. It does not show that the account is theirs: a stranger may
have made it. So the account keeps what was set up before only for a person who shows that they own that too, by its
password (and its second factor), or in a session of it. Anybody else starts clean (``first_proof``).
"""

import uuid
from datetime import datetime
from typing import Final, NamedTuple

from django.contrib.auth.hashers import make_password

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.email import first_proof
from accounts.email import units as email_units
from accounts.errors import InvalidEmailToken, PasswordChanged
from accounts.lockout import throttling
from accounts.mfa import factors
from accounts.outbox import queue as outgoing_mail
from accounts.outbox import tokens as email_tokens
from accounts.outbox.queue import Kind
from accounts.outbox.tokens import FoundToken, Purpose
from accounts.privacy import units as deletions
from accounts.users import queries as user_queries
from accounts.users.models import User
from accounts.users.proofs import Proof
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import FieldError, NotAuthenticated, ValidationFailed

PASSWORD_NEEDED: Final = FieldError(
    "password", "required", "Send the password of the account that is to have this address, or do it in its session."
)


class ByPassword(NamedTuple):
    """The account's password was right for the hash ``encoded``, and its second factor for ``proof``, if it has one."""

    encoded: str
    proof: Proof | None = None


class BySession(NamedTuple):
    """The request came in a live session of the account, of this epoch."""

    user_id: uuid.UUID
    epoch: int


type Owner = ByPassword | BySession


class Asked(NamedTuple):
    """What a link that confirms an address is about, for the page that asks.

    ``moves``: an account with another address wants this one. ``proved``: somebody has proved the present address.
    ``ways``: the factors one by one, where nobody has.
    """

    email: str
    made_at: datetime
    moves: bool
    proved: bool
    has_factors: bool
    ways: tuple[factors.Kept, ...]
    may_disown: bool

    @property
    def needs_owner(self) -> bool:
        """Whether the person has to show that the account is theirs, or start clean."""
        return self.moves or not self.proved


def asked(token: str) -> Asked | None:
    """Return what a token would confirm; None when it is good for nothing. Five queries at most, and no change."""
    found = email_tokens.find(token, Purpose.VERIFY_EMAIL, Purpose.CHANGE_EMAIL)
    user = user_queries.find(found.user_id) if found else None
    if found is None or user is None:
        return None
    moves = found.purpose == Purpose.CHANGE_EMAIL
    has_factors = bool(factors.methods_of(user.pk))
    return Asked(
        email=found.new_email if moves else user.email,
        made_at=user.created_at,
        moves=moves,
        proved=user.email_verified_at is not None,
        has_factors=has_factors,
        ways=factors.kept(user.pk) if has_factors and not moves else (),
        may_disown=not moves and deletions.may_disown(user),
    )


def confirm(*, found: FoundToken, owner: Owner | None = None, chosen: str | None = None) -> None:
    """Use the token up, and mark the address it was sent to as the user's verified one.

    Without ``owner`` an account whose address nobody has proved starts clean. Its password is then ``chosen``; without
    one nobody has a password, and a message leads to where one is chosen. Where the present address is proved, an
    account moves to another one only with ``owner``: who reads the mail there need not have asked for it.

    Args:
        found: What the token is good for.
        owner: What shows that the account is the person's too.
        chosen: The hash of a new password, for an address that nobody has proved.

    Raises:
        InvalidEmailToken: The token was used, or its user changed, since it was found; or a password was chosen, and
            the address is proved by now.
        ValidationFailed: The account is to move, and nothing shows whose it is. The token stays.
        PasswordChanged, NotAuthenticated, SecondFactorRefused: What ``owner`` shows is not true any more.
        IntegrityError: Another account has the new address by now.
    """
    user = email_units.user_of(found)
    proved, changes, event = user.email_verified_at is not None, {"email_verified_at"}, Event.EMAIL_VERIFIED
    if chosen is not None and proved:
        raise InvalidEmailToken
    if found.purpose == Purpose.CHANGE_EMAIL:
        if proved and owner is None:
            raise ValidationFailed(errors=[PASSWORD_NEEDED])
        outgoing_mail.enqueue(Kind.EMAIL_CHANGED, recipient=user.email, user_id=user.pk)
        throttling.forget_devices(email=user.email)  # who has the address next did not sign in on them
        user.email = found.new_email
        changes, event = changes | {"email"}, Event.EMAIL_CHANGED
    if owner is not None:
        _require_owner(user, owner)
    details: dict[str, object] = {"first_proof": not proved}
    if proved or owner is not None:
        user.email_verified_at = clock.now()
        user_queries.change(user, changes)
    else:
        details |= _start_clean(user, chosen, changes)
    audit.record(event, actor_id=user.pk, user_id=user.pk, details=details)


def _require_owner(user: User, owner: Owner) -> None:
    """Raise unless what was shown before this transaction still holds in it."""
    if isinstance(owner, BySession):
        if owner.user_id != user.pk or owner.epoch != user.session_epoch:
            raise NotAuthenticated("This session has ended: sign in again.")
        return
    if owner.encoded != user.password:
        raise PasswordChanged
    if owner.proof is not None and not owner.proof.use():
        raise owner.proof.refusal


def _start_clean(user: User, chosen: str | None, changes: set[str]) -> dict[str, object]:
    """Leave the account without anything of before; return what the trail says of it."""
    encoded = make_password(None) if chosen is None else chosen
    removed = first_proof.start_clean(user, encoded=encoded, fields=changes)
    if chosen is None:
        token_id = email_tokens.issue(purpose=Purpose.RESET_PASSWORD, user_id=user.pk)
        outgoing_mail.enqueue(Kind.CHOOSE_PASSWORD, recipient=user.email, user_id=user.pk, token_id=token_id)
    else:
        facts = {"factors_removed": bool(removed)}
        outgoing_mail.enqueue(Kind.PASSWORD_CHANGED, recipient=user.email, user_id=user.pk, facts=facts)
    return first_proof.details(removed)
