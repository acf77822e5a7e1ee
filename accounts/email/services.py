"""What people do by e-mail: a forgotten password, a verified address, another address; async, keyword-only.

Nothing here tells whether an address has an account. The answer does not, and neither does its time: messages are
queued here and sent elsewhere, and answers are given at even times. Messages are counted before it is known whether
anybody gets them.

``address`` is the client's IP address, "" when unknown, which is not counted.
"""

import uuid
from datetime import datetime
from typing import NamedTuple

from django.db import IntegrityError
from django.utils.translation import gettext_noop as _

from accounts import email_address as emails
from accounts.audit.recording import Event
from accounts.email import units as email_units
from accounts.email.units import ByPassword, BySession, Owner
from accounts.errors import EmailTaken, InvalidCredentials, InvalidEmailToken
from accounts.lockout import rate_limits
from accounts.mfa import factors
from accounts.mfa.errors import InvalidMfaCode
from accounts.outbox import tokens as email_tokens
from accounts.outbox.tokens import FoundToken, Purpose
from accounts.passwords import hashing as passwords
from accounts.passwords.breached import require_unbreached
from accounts.passwords.policy import require_policy
from accounts.privacy import services as deletions
from accounts.privacy.outputs import Deleted
from accounts.users import reauthentication
from accounts.users.proofs import Evidence, ProofRequest
from accounts.users.reauthentication import reauthenticate
from ironauth.infrastructure.core.constant_time import answered_evenly
from ironauth.infrastructure.core.errors import FieldError, ValidationFailed
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.hashing import claims as hash_claims
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.telemetry.logs import get_logger


async def request_password_reset(*, email: str, address: str = "", page: str = "") -> uuid.UUID:
    """Have a message sent to the active person who has this address, if there is one.

    Args:
        email: The address that was typed.
        address: The client's.
        page: The route of the page that the link opens; "" for the one that goes on nowhere.

    Returns:
        The id of the message's token, whether or not anybody has the address.

    Raises:
        Throttled: Too many messages were asked for.
    """
    async with answered_evenly():
        await rate_limits.admit_mail(kind="reset", email=email, address=address)
        user_id, token_id = await database().write(email_units.request_reset_on, emails.fold(email), page=page)
    get_logger().info("password_reset_requested", user_id=str(user_id) if user_id else None)
    return token_id


async def reset_by(*, token: str, address: str = "") -> FoundToken:
    """Return whose password the token of a message would set; it is not used up.

    Args:
        token: What the link has brought.
        address: The client's; "" to count no invalid ones.

    Raises:
        InvalidEmailToken: (400) it would set none.
        Throttled: (429) in its place, after too many of them from this client.
    """
    return await _found(token, address, Purpose.RESET_PASSWORD)


async def reset_password(*, token: str, new_password: str, address: str = "") -> None:
    """Set the password that a message's token allows to set; every session has ended when this returns.

    Without a token nothing else is told: whether a password is good depends on whose it is to be.

    Args:
        token: What the message brought, not yet judged.
        new_password: What was chosen, not yet judged by the policy.
        address: The client's IP address.

    Raises:
        InvalidEmailToken: Before any hash is paid for.
        Throttled: In its place, after too many of them.
        ValidationFailed: (``new_password``) By the policy or the list of breached ones; the token stays as it is.
        Overloaded: The hash pool is full.
    """
    hash_pool().require_capacity()
    found = await _found(token, address, Purpose.RESET_PASSWORD)
    encoded = await _chosen(new_password, found)
    await database().write(email_units.reset_password, found=found, new=encoded)
    get_logger().info("password_reset", user_id=str(found.user_id))


async def resend_verification(*, email: str, address: str = "", page: str = "") -> uuid.UUID:
    """Have a message sent to the active person who has this address and has not verified it, if there is one.

    Args:
        email: The address that was typed.
        address: The client's IP address.
        page: The route of the page that the link opens; "" for the one that goes on nowhere.

    Returns:
        The id of the message's token, whether or not anybody has the address.

    Raises:
        Throttled: Too many messages were asked for.
    """
    async with answered_evenly():
        await rate_limits.admit_mail(kind="verification", email=email, address=address)
        key = emails.fold(email)
        user_id, token_id = await database().write(email_units.request_verification, key, page=page)
    get_logger().info("verification_requested", user_id=str(user_id) if user_id else None)
    return token_id


async def verification_of(*, token: str) -> FoundToken | None:
    """Return whose address the token of a message would confirm; None where it would confirm none.

    Args:
        token: What the link has brought; not used up, and not counted.
    """
    return await database().read(email_tokens.find, token, Purpose.VERIFY_EMAIL)


class Confirmed(NamedTuple):
    """Who has confirmed an address, and has shown with it that the account is theirs.

    Attributes:
        user_id: The account.
        epoch: The epoch its password was right under.
        email: Its address.
        factor: How its second factor was proved (RFC 8176); "" for an account without one.
    """

    user_id: uuid.UUID
    epoch: int
    email: str
    factor: str


async def confirm_address(
    *,
    token: str,
    password: str = "",
    code: str = "",
    new_password: str = "",
    session: BySession | None = None,
    address: str = "",
) -> Confirmed | None:
    """Verify the address a message was sent to; with the token of a change it becomes the account's.

    Where nobody has proved the account's address, the account keeps what was set up before only with its ``password``
    (and ``code``, where it has a second factor) or in a live ``session`` of it. Otherwise the person starts clean: with
    ``new_password``, or with none, and a message that lets them choose one. An account with a proved address moves to
    another one only with its ``password`` or in a ``session`` of it.

    Args:
        token: What the message brought.
        password: The account's; "" when it is not given.
        code: Of its app, or a recovery code.
        new_password: To start clean with; the other two do not count then.
        session: The session that the request came in, of any account.
        address: The client's.

    Returns:
        Who has shown by ``password`` and ``code`` that an account with this address is theirs; None for anybody else.

    Raises:
        InvalidEmailToken, Throttled: As above.
        ValidationFailed: The password or the code is wrong or missing, or the new password is refused. The token stays.
        EmailTaken: Another account has the new address by now.
        PasswordChanged, NotAuthenticated, SecondFactorRefused: What was shown is not true any more.
        Overloaded: The hash pool is full.
    """
    found = await _found(token, address, Purpose.VERIFY_EMAIL, Purpose.CHANGE_EMAIL)
    owner: Owner | None = None
    chosen: str | None = None
    confirmed: Confirmed | None = None
    if new_password:
        chosen = await _chosen(new_password, found)
    elif password:
        owner, confirmed = await _shown(found, password, code, address)
    elif session is not None and session.user_id == found.user_id:
        owner = session
    try:
        await database().write(email_units.confirm, found=found, owner=owner, chosen=chosen)
    except IntegrityError as error:
        raise EmailTaken from error
    event = "email_changed" if found.purpose == Purpose.CHANGE_EMAIL else "email_verified"
    get_logger().info(event, user_id=str(found.user_id))
    return confirmed if found.purpose == Purpose.VERIFY_EMAIL else None


async def pending_change(*, user_id: uuid.UUID) -> tuple[str, datetime] | None:
    """Return the address that waits to become this account's, and until when; None where none does."""
    return await database().read(email_units.pending_change, user_id)


async def asked_by(*, token: str) -> email_units.ConfirmationLink | None:
    """Return what this token would confirm, for its page to say; None when it is good for nothing."""
    return await database().read(email_units.asked, token)


async def disown_address(*, token: str, address: str = "") -> None:
    """End the account that somebody else made under the address a message was sent to, while nobody has proved that.

    Args:
        token: What the message brought, not yet judged.
        address: The client's IP address.

    Raises:
        InvalidEmailToken, Throttled: As above.
    """
    found = await _found(token, address, Purpose.VERIFY_EMAIL)
    await deletions.disown(found=found)
    get_logger().info("account_disowned", user_id=str(found.user_id))


async def restore_account(*, token: str, address: str = "") -> bool:
    """Take the deletion of an account back, within its days of grace; return whether its address was ever proved.

    Args:
        token: What the message brought, not yet judged.
        address: The client's IP address.

    Raises:
        InvalidEmailToken, Throttled: As above.
        EmailTaken: Somebody else has the address by now. The token stays as it is.
    """
    found = await _found(token, address, Purpose.RESTORE_ACCOUNT)
    try:
        proved = await deletions.restore(found=found)
    except IntegrityError as error:
        raise EmailTaken(
            _(
                "Another account has your e-mail address by now, so yours cannot be restored under it: ask the people "
                "who run this service."
            )
        ) from error
    get_logger().info("account_restored", user_id=str(found.user_id), by=str(found.user_id))
    return proved


async def deleted_by(*, token: str) -> Deleted | None:
    """Return which account this token would restore, for its page to say; None when it is good for nothing."""
    return await deletions.deleted_by(token=token)


async def disown_deleted(*, token: str, address: str = "") -> None:
    """Leave an account that somebody else made under the address to its end, while nobody has proved that address.

    Args:
        token: What the message brought, not yet judged.
        address: The client's IP address.

    Raises:
        InvalidEmailToken, Throttled: As above.
    """
    found = await _found(token, address, Purpose.RESTORE_ACCOUNT)
    await deletions.disown_deleted(found=found)
    get_logger().info("account_disowned", user_id=str(found.user_id))


async def request_email_change(
    *, user_id: uuid.UUID, new_email: str, shown: Evidence, address: str = "", session_id: uuid.UUID | None = None
) -> None:
    """Have a message sent to the new address, which confirms it, and one to the present address.

    Args:
        user_id: The person who is signed in.
        new_email: The address that they want, validated.
        shown: What proves again that it is them.
        address: The client's IP address.
        session_id: The session it is done in, for the trail.

    Raises:
        InvalidCredentials: The password is wrong.
        Throttled: After too many of those, or too many messages.
        NotAuthenticated: The account is gone or inactive.
        PasswordChanged: The password was changed meanwhile.
        Overloaded: The hash pool is full.
    """
    found = await reauthentication.active_user(user_id)
    await rate_limits.admit_mail(kind="change", email=new_email, address=address, user_id=user_id)
    await reauthenticate(found, shown, ProofRequest(user_id, Event.EMAIL_CHANGE_REQUESTED, address, session_id))
    async with answered_evenly():
        await database().write(
            email_units.request_change,
            user_id=user_id,
            old=found.encoded,
            new_email=new_email,
            session_id=session_id,
        )
    get_logger().info("email_change_requested", user_id=str(user_id))


async def _found(token: str, address: str, *purposes: Purpose) -> FoundToken:
    """Return what a message's token is good for.

    Raises ``InvalidEmailToken``, or ``Throttled`` when too many invalid ones came from ``address``.
    """
    found = await database().read(email_tokens.find, token, *purposes)
    if found is None:
        await rate_limits.admit(rate_limits.EMAIL_TOKEN, address=address)
        raise InvalidEmailToken
    return found


async def _chosen(new_password: str, found: FoundToken) -> str:
    """Return the hash of a new password for the token's user.

    Raises ``ValidationFailed`` (``new_password``) by the policy or the list of breached ones, ``Overloaded``.
    """
    hash_pool().require_capacity()
    require_policy(new_password, email=found.email, name=found.name, field="new_password")
    await require_unbreached(new_password, field="new_password")
    with hash_claims.named(found.user_id.hex):
        return await passwords.hash_password(new_password)


async def _shown(found: FoundToken, password: str, code: str, address: str) -> tuple[ByPassword, Confirmed]:
    """Return what shows that the account is the person's: its password, and its second factor if it has one.

    And what that proves once it is used up.

    A change of address was asked for in a session that had proved the factor: the password is enough.

    Raises ``ValidationFailed`` naming what is wrong or missing; ``Throttled``, ``Overloaded``.
    """
    hash_pool().require_capacity()
    person = await reauthentication.active_user(found.user_id)
    wants_code = bool(person.methods) and found.purpose == Purpose.VERIFY_EMAIL
    if wants_code and not code:
        raise _refused("code", "required", _("The account has a second factor: type a code of it, or a recovery code."))
    try:
        await reauthenticate(
            person, Evidence(password=password), ProofRequest(person.id, Event.EMAIL_VERIFIED, address)
        )
    except InvalidCredentials as error:
        text = _(
            "This is not the account's password: check it and try again. "
            "If you chose another one when you signed up, choose a new password instead."
        )
        raise _refused("password", "wrong_password", text) from error
    confirmed = Confirmed(person.id, person.session_epoch, person.email, "")
    if not wants_code:
        return ByPassword(person.encoded), confirmed
    try:
        proof = await factors.judge(Evidence(code=code), ProofRequest(person.id, Event.EMAIL_VERIFIED, address))
    except InvalidMfaCode as error:
        raise _refused("code", error.code, error.detail) from error
    assert proof is not None
    return ByPassword(person.encoded, proof), confirmed._replace(factor=proof.amr)


def _refused(field: str, code: str, message: str) -> ValidationFailed:
    return ValidationFailed(errors=[FieldError(field, code, message)])
