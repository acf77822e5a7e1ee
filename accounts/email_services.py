"""What people do by e-mail: a forgotten password, a verified address, another address; async, keyword-only.

None of it tells whether an address has an account: not by the answer, and not by the time it takes, because messages
are queued here and sent elsewhere, and answers are given at even times. Messages are counted before it is known whether
anybody gets them. ``address``: the client's, "" when unknown, which is not counted.
"""

import uuid

from django.db import IntegrityError

from accounts import confirmations, deletions, email_tokens, email_units, emails, passwords, rate_limits
from accounts.audit import Event
from accounts.breached_passwords import require_unbreached
from accounts.email_tokens import FoundToken, Purpose
from accounts.errors import EmailTaken, InvalidEmailToken
from accounts.even_time import answered_evenly
from accounts.password_policy import require_policy
from ironauth.infrastructure.database import database
from ironauth.infrastructure.hash_pool import hash_pool
from ironauth.infrastructure.logs import get_logger


async def request_password_reset(*, email: str, address: str = "") -> None:
    """Have a message sent to who has this address, if anybody active has. Raises ``Throttled``."""
    async with answered_evenly():
        await rate_limits.admit_mail(kind="reset", email=email, address=address)
        user_id = await database().write(email_units.request_reset, emails.fold(email))
    get_logger().info("password_reset_requested", user_id=str(user_id) if user_id else None)


async def reset_password(*, token: str, new_password: str, address: str = "") -> None:
    """Set the password that a message's token allows to set; every session has ended when this returns.

    Raises ``InvalidEmailToken`` before any hash is paid for, or ``Throttled`` in its place after too many of them; who
    has no token is told nothing else, for whether a password is good depends on whose it is to be;
    ``ValidationFailed`` (``new_password``) by the policy or the list of breached ones, which leaves the token as it is,
    ``Overloaded`` when the hash pool is full.
    """
    hash_pool().require_capacity()
    found = await _found(token, address, Purpose.RESET_PASSWORD)
    require_policy(new_password, email=found.email, name=found.name, field="new_password")
    await require_unbreached(new_password, field="new_password")
    encoded = await passwords.hash_password(new_password)
    await database().write(email_units.reset_password, found=found, new=encoded)
    get_logger().info("password_reset", user_id=str(found.user_id))


async def resend_verification(*, email: str, address: str = "") -> None:
    """Have a message sent to who has this address, if somebody active has and has not verified it.

    Raises ``Throttled``.
    """
    async with answered_evenly():
        await rate_limits.admit_mail(kind="verification", email=email, address=address)
        user_id = await database().write(email_units.request_verification, emails.fold(email))
    get_logger().info("verification_requested", user_id=str(user_id) if user_id else None)


async def confirm_address(*, token: str, address: str = "") -> None:
    """Verify the address a message was sent to; with the token of a change it becomes the account's.

    Raises ``InvalidEmailToken`` or ``Throttled`` as above; ``EmailTaken`` when another account has the new address by
    now.
    """
    found = await _found(token, address, Purpose.VERIFY_EMAIL, Purpose.CHANGE_EMAIL)
    try:
        await database().write(email_units.confirm_address, found=found)
    except IntegrityError as error:
        raise EmailTaken from error
    event = "email_changed" if found.purpose == Purpose.CHANGE_EMAIL else "email_verified"
    get_logger().info(event, user_id=str(found.user_id))


async def asked_by(*, token: str) -> email_units.Asked | None:
    """Return what this token would confirm, for its page to say; None when it is good for nothing."""
    return await database().read(email_units.asked, token)


async def disown_address(*, token: str, address: str = "") -> None:
    """End the account that somebody else made under the address a message was sent to, while nobody has proved that.

    Raises ``InvalidEmailToken`` or ``Throttled`` as above.
    """
    found = await _found(token, address, Purpose.VERIFY_EMAIL)
    await database().write(deletions.disown, found=found)
    get_logger().info("account_disowned", user_id=str(found.user_id))


async def restore_account(*, token: str, address: str = "") -> None:
    """Take the deletion of an account back, within its days of grace.

    Raises ``InvalidEmailToken`` or ``Throttled`` as above; ``EmailTaken`` when somebody else has its address by now,
    which leaves the token as it is.
    """
    found = await _found(token, address, Purpose.RESTORE_ACCOUNT)
    try:
        await database().write(deletions.restore, found=found)
    except IntegrityError as error:
        raise EmailTaken(
            "Another account has your e-mail address by now, so yours cannot be restored under it: ask the people who "
            "run this service."
        ) from error
    get_logger().info("account_restored", user_id=str(found.user_id), by=str(found.user_id))


async def request_email_change(
    *, user_id: uuid.UUID, new_email: str, password: str, address: str = "", session_id: uuid.UUID | None = None
) -> None:
    """Have a message sent to the new address, which confirms it, and one to the present address.

    Raises ``InvalidCredentials`` for a wrong password, ``Throttled`` after too many of those or too many messages,
    ``NotAuthenticated``, ``PasswordChanged``, ``Overloaded``.
    """
    found = await confirmations.present(user_id)
    await rate_limits.admit_mail(kind="change", email=new_email, address=address, user_id=user_id)
    await confirmations.require_password(found, password, Event.EMAIL_CHANGE_REQUESTED, session_id)
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
