"""Units of work behind the messages' tokens: asking for one, and doing what it allows. One transaction each.

Asking runs the same statements whether the address is known or not. For an unknown address the rows have no user and no
recipient, and delivery drops them.
"""

import uuid
from datetime import datetime
from typing import Final, NamedTuple

from django.contrib.auth.hashers import make_password
from django.utils.translation import gettext_noop as _

from accounts import email_address as emails
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.email import first_proof
from accounts.errors import InvalidEmailToken, PasswordChanged
from accounts.lockout import throttling
from accounts.mfa import factors
from accounts.outbox import queue as outbox
from accounts.outbox import tokens as email_tokens
from accounts.outbox.kinds import Kind
from accounts.outbox.models import EmailToken
from accounts.outbox.tokens import FoundToken, Purpose
from accounts.privacy import queries as deletion_queries
from accounts.users import queries as user_queries
from accounts.users import rules as user_rules
from accounts.users.models import User
from accounts.users.proofs import Proof
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import FieldError, NotAuthenticated, ValidationFailed

PASSWORD_NEEDED: Final = FieldError(
    "password",
    "required",
    _("Send the password of the account that is to have this address, or do it in its session."),
)


def request_reset(key: str, *, actor_id: uuid.UUID | None = None) -> uuid.UUID | None:
    """Queue a message for the active person who has this folded address; return who that is.

    Five queries, no matter who it is.

    Args:
        key: The folded address.
        actor_id: The member of staff who asks for somebody else.
    """
    return request_reset_on(key, actor_id=actor_id)[0]


def request_reset_on(
    key: str, *, page: str = "", actor_id: uuid.UUID | None = None
) -> tuple[uuid.UUID | None, uuid.UUID]:
    """Do the same with a link to another page.

    Args:
        key: The folded address.
        page: The route of the page that the link opens; "" for the one that goes on nowhere.
        actor_id: The member of staff who asks for somebody else.

    Returns:
        Who it is, and the token's id.
    """
    holder = user_queries.lock_holder(key)
    active = holder if holder and holder.is_active else None
    user_id, token_id = ask(active, Purpose.RESET_PASSWORD, Kind.RESET_PASSWORD, page=page)
    audit.record(Event.PASSWORD_RESET_REQUESTED, actor_id=actor_id, user_id=user_id)
    return user_id, token_id


def request_verification(
    key: str, *, page: str = "", actor_id: uuid.UUID | None = None
) -> tuple[uuid.UUID | None, uuid.UUID]:
    """The same for an active holder of this address who has not verified it yet.

    Args:
        key: The folded address.
        page: The route of the page that the link opens; "" for the one that goes on nowhere.
        actor_id: The member of staff who asks for somebody else.

    Returns:
        Who it is, and the token's id.
    """
    holder = user_queries.lock_holder(key)
    waits = holder is not None and holder.is_active and holder.email_verified_at is None
    user_id, token_id = ask(holder if waits else None, Purpose.VERIFY_EMAIL, Kind.VERIFY_EMAIL, page=page)
    audit.record(Event.VERIFICATION_REQUESTED, actor_id=actor_id, user_id=user_id)
    return user_id, token_id


def request_sign_in_code(key: str, *, page: str = "") -> uuid.UUID:
    """Queue a message with a code for the active person who has this folded address; return the token's id.

    Five queries, no matter who it is.

    Args:
        key: The folded address.
        page: The route of the page that a link in the message opens; "" for a message without a link.
    """
    holder = user_queries.lock_holder(key)
    active = holder if holder is not None and holder.is_active else None
    user_id, token_id = ask(active, Purpose.SIGN_IN, Kind.SIGN_IN_CODE, with_code=True, page=page)
    audit.record(Event.SIGN_IN_CODE_REQUESTED, user_id=user_id)
    return token_id


def prove_by_code(found: FoundToken) -> user_queries.Credentials:
    """Use up the token of a sign-in whose person has read its message; return what the account is then.

    Where nobody had proved the address before, a stranger may have made the account: the person starts clean
    (``first_proof``), without a password, and gets the message in which they choose one.

    Raises:
        InvalidEmailToken: The token was used, or its user changed, since it was found.
    """
    user = user_of(found)
    if user.email_verified_at is None:
        details = {"first_proof": True, **_start_clean(user, None, set())}
        audit.record(Event.EMAIL_VERIFIED, actor_id=user.pk, user_id=user.pk, details=details)
    person = user_queries.credentials_of_id(user.pk)
    if person is None:
        raise InvalidEmailToken
    return person


def repeat_sign_up_code(key: str, *, user_id: uuid.UUID, epoch: int, page: str = "") -> uuid.UUID:
    """Queue another message for the account that a page's sign-up made; return the new token's id.

    Its code, typed, keeps the account's password (``BySignUp``), so the account has to be the one that was made,
    with the password it was made with. Else the token is a dummy: it looks the same, and opens nothing. Five queries,
    no matter which.

    Args:
        key: The folded address that was signed up.
        user_id: The account that the sign-up made; where the address was taken, an id that nobody has.
        epoch: The epoch it was made in, which another password or a deactivation ends.
        page: The route of the page that the link opens; "" for the one that goes on nowhere.
    """
    user = user_queries.lock(user_id)
    waits = user is not None and user.is_active and user.email_verified_at is None
    same = user is not None and user.email_key == key and user.session_epoch == epoch
    holder = user_queries.Holder(user.pk, user.email, True, None) if user is not None and waits and same else None
    holder_id, token_id = ask(holder, Purpose.VERIFY_EMAIL, Kind.VERIFY_EMAIL, with_code=True, page=page)
    audit.record(Event.VERIFICATION_REQUESTED, user_id=holder_id)
    return token_id


def reset_password(*, found: FoundToken, new: str) -> None:
    """Use the token up and store the hash ``new``. Every session ends, and the address counts as verified.

    Failures are forgiven: guesses at the old password say nothing about the new one. Where nobody had proved the
    address before, a stranger may have made the account: the person starts clean (``first_proof``). An account whose
    address is proved keeps its second factors (ASVS 6.4.3): reading somebody's mail does not give what they sign in
    with.

    Args:
        found: What the token is good for.
        new: The hash of the new password.

    Raises:
        InvalidEmailToken: The token was used, or its user changed, since it was found.
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
    outbox.enqueue(Kind.PASSWORD_CHANGED, recipient=user.email, user_id=user.pk, facts=facts)
    throttling.forgive_account(email=user.email, user_id=user.pk)
    audit.record(Event.PASSWORD_RESET, actor_id=user.pk, user_id=user.pk, details=details)


def request_change(*, user_id: uuid.UUID, old: str, new_email: str, session_id: uuid.UUID | None) -> None:
    """Queue the message that confirms a new address, and one to the present address that tells of it.

    Another account's address gets a message that there is an account already.

    Args:
        user_id: Who asks.
        old: The hash the password was right for.
        new_email: The address.
        session_id: The session it is done in.

    Raises:
        NotAuthenticated: The user is gone or inactive.
        PasswordChanged: The password was changed meanwhile.
    """
    user, holder = _locked(user_id, emails.fold(new_email))
    if user.password != old:
        raise PasswordChanged
    token_id = email_tokens.issue(purpose=Purpose.CHANGE_EMAIL, user_id=user_id, new_email=new_email)
    if holder is None:
        outbox.enqueue(Kind.CHANGE_EMAIL, recipient=new_email, user_id=user_id, token_id=token_id)
    else:  # nobody ever sees the token
        recipient = holder.email if holder.is_active else ""
        outbox.enqueue(Kind.ACCOUNT_EXISTS, recipient=recipient, user_id=holder.pk)
    outbox.enqueue(Kind.EMAIL_CHANGE_REQUESTED, recipient=user.email, user_id=user_id)
    audit.record(Event.EMAIL_CHANGE_REQUESTED, actor_id=user_id, user_id=user_id, session_id=session_id)


def pending_change(user_id: uuid.UUID) -> tuple[str, datetime] | None:
    """Return the address that somebody has asked for, and until when its link is good; None where none waits.

    Whether another account has the address makes no difference. One query.
    """
    waiting = EmailToken.objects.filter(user_id=user_id, purpose=Purpose.CHANGE_EMAIL, expires_at__gt=clock.now())
    return waiting.order_by("-pk").values_list("new_email", "expires_at").first()


def ask(
    holder: user_queries.Holder | None, purpose: Purpose, kind: Kind, *, with_code: bool = False, page: str = ""
) -> tuple[uuid.UUID | None, uuid.UUID]:
    """Issue a token for ``holder``, or for nobody, and queue its message. Three queries.

    Args:
        holder: Whose it is.
        purpose: What the token is good for.
        kind: Of the message.
        with_code: Whether the message has a code of six digits.
        page: The route of the page that its link opens; "" for the kind's own.

    Returns:
        The holder's id and the token's.
    """
    user_id = holder.id if holder else None
    token_id = email_tokens.issue(purpose=purpose, user_id=user_id, with_code=with_code)
    facts = {"page": page} if page else {}
    outbox.enqueue(kind, recipient=holder.email if holder else "", user_id=user_id, token_id=token_id, facts=facts)
    return user_id, token_id


def _locked(user_id: uuid.UUID, key: str) -> tuple[User, User | None]:
    """Return the active user, and who else has this folded address, both locked; as ``user_rules.locked`` otherwise.

    In the order of their ids, so that two people who ask for each other's address never wait in a circle.
    """
    found = user_queries.credentials_of_email(key)
    other_id = found.id if found and found.id != user_id else None
    other = user_queries.lock(other_id) if other_id and other_id < user_id else None
    user = user_rules.locked(user_id)
    if other_id and other_id > user_id:
        other = user_queries.lock(other_id)
    return user, other if other and other.email_key == key else None  # gone, or moved on, meanwhile


def user_of(found: FoundToken) -> User:
    """Return the token's user, locked, after using the token up.

    Raises:
        InvalidEmailToken: Either is gone.
    """
    user = user_queries.lock(found.user_id)
    if user is None or not user.is_active or not email_tokens.consume(found.id):
        raise InvalidEmailToken
    return user


# ------------------------------------------------------------------ the link that confirms an address
# A click shows that somebody reads the mail of the address. It does not show that the account is theirs: a stranger may
# have made it. So the account keeps what was set up before only for a person who shows that they own that too, by its
# password (and its second factor), or in a session of it. Anybody else starts clean (``first_proof``).
class ByPassword(NamedTuple):
    """The account's password was right for the hash ``encoded``, and its second factor for ``proof``, if it has one."""

    encoded: str
    proof: Proof | None = None


class BySession(NamedTuple):
    """The request came in a live session of the account, of this epoch."""

    user_id: uuid.UUID
    epoch: int


class BySignUp(NamedTuple):
    """The browser has made this account, and typed the code of the token of its sign-up.

    The token goes with the password it was made under, and another one is made for that password alone: while it is
    there, the password is the one that was typed.
    """


type Owner = ByPassword | BySession | BySignUp


class ConfirmationLink(NamedTuple):
    """What a link that confirms an address is about, for the page that asks.

    ``moves``: an account with another address wants this one. ``proved``: somebody has proved the present address.
    ``ways``: the factors one by one, where nobody has.
    """

    email: str
    made_at: datetime
    moves: bool
    proved: bool
    has_factors: bool
    ways: tuple[factors.FactorSummary, ...]
    may_disown: bool

    @property
    def needs_owner(self) -> bool:
        """Whether the person has to show that the account is theirs, or start clean."""
        return self.moves or not self.proved


def asked(token: str) -> ConfirmationLink | None:
    """Return what a token would confirm; None when it is good for nothing. Five queries at most, and no change."""
    found = email_tokens.find(token, Purpose.VERIFY_EMAIL, Purpose.CHANGE_EMAIL)
    user = user_queries.find(found.user_id) if found else None
    if found is None or user is None:
        return None
    moves = found.purpose == Purpose.CHANGE_EMAIL
    has_factors = bool(factors.methods_of(user.pk))
    return ConfirmationLink(
        email=found.new_email if moves else user.email,
        made_at=user.created_at,
        moves=moves,
        proved=user.email_verified_at is not None,
        has_factors=has_factors,
        ways=factors.kept(user.pk) if has_factors and not moves else (),
        may_disown=not moves and deletion_queries.may_disown(user),
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
    user = user_of(found)
    proved, changes, event = user.email_verified_at is not None, {"email_verified_at"}, Event.EMAIL_VERIFIED
    if chosen is not None and proved:
        raise InvalidEmailToken
    if found.purpose == Purpose.CHANGE_EMAIL:
        if proved and owner is None:
            raise ValidationFailed(errors=[PASSWORD_NEEDED])
        outbox.enqueue(Kind.EMAIL_CHANGED, recipient=user.email, user_id=user.pk)
        throttling.forget_devices(email=user.email)  # its next owner did not sign in on them
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
    if isinstance(owner, BySignUp):
        return
    if isinstance(owner, BySession):
        if owner.user_id != user.pk or owner.epoch != user.session_epoch:
            raise NotAuthenticated(_("This session has ended: sign in again."))
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
        outbox.enqueue(Kind.CHOOSE_PASSWORD, recipient=user.email, user_id=user.pk, token_id=token_id)
    else:
        facts = {"factors_removed": bool(removed)}
        outbox.enqueue(Kind.PASSWORD_CHANGED, recipient=user.email, user_id=user.pk, facts=facts)
    return first_proof.details(removed)
