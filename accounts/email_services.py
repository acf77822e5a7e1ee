"""What people do by e-mail: a forgotten password, a verified address, another address; async, keyword-only.

None of it tells whether an address has an account: not by the answer, and not by the time it takes, because messages
are queued here and sent elsewhere, and answers are given at even times.
"""

import uuid

from django.db import IntegrityError

from accounts import email_tokens, email_units, emails, passwords, units
from accounts.email_tokens import FoundToken, Purpose
from accounts.errors import EmailTaken, InvalidCredentials, InvalidEmailToken
from accounts.even_time import answered_evenly
from accounts.password_policy import require_policy
from ironauth.infrastructure.database import database
from ironauth.infrastructure.errors import NotAuthenticated
from ironauth.infrastructure.hash_pool import hash_pool
from ironauth.infrastructure.logs import get_logger


async def request_password_reset(*, email: str) -> None:
    """Have a message sent to who has this address, if anybody active has."""
    async with answered_evenly():
        user_id = await database().write(email_units.request_reset, emails.fold(email))
    get_logger().info("password_reset_requested", user_id=str(user_id) if user_id else None)


async def reset_password(*, token: str, new_password: str) -> None:
    """Set the password that a message's token allows to set; every session has ended when this returns.

    Raises ``InvalidEmailToken`` before any hash is paid for, ``ValidationFailed`` (field ``new_password``) by the
    policy, which leaves the token as it is, ``Overloaded`` when the hash pool is full.
    """
    hash_pool().require_capacity()
    found = await _found(token, Purpose.RESET_PASSWORD)
    require_policy(new_password, email=found.email, name=found.name, field="new_password")
    encoded = await passwords.hash_password(new_password)
    await database().write(email_units.reset_password, found=found, new=encoded)
    get_logger().info("password_reset", user_id=str(found.user_id))


async def resend_verification(*, email: str) -> None:
    """Have a message sent to who has this address, if somebody active has and has not verified it."""
    async with answered_evenly():
        user_id = await database().write(email_units.request_verification, emails.fold(email))
    get_logger().info("verification_requested", user_id=str(user_id) if user_id else None)


async def confirm_address(*, token: str) -> None:
    """Verify the address a message was sent to; with the token of a change it becomes the account's.

    Raises ``InvalidEmailToken``; ``EmailTaken`` when another account has the new address by now.
    """
    found = await _found(token, Purpose.VERIFY_EMAIL, Purpose.CHANGE_EMAIL)
    try:
        await database().write(email_units.confirm_address, found=found)
    except IntegrityError as error:
        raise EmailTaken from error
    event = "email_changed" if found.purpose == Purpose.CHANGE_EMAIL else "email_verified"
    get_logger().info(event, user_id=str(found.user_id))


async def request_email_change(*, user_id: uuid.UUID, new_email: str, password: str) -> None:
    """Have a message sent to the new address, which confirms it, and one to the present address.

    Raises ``InvalidCredentials`` for a wrong password, ``NotAuthenticated``, ``PasswordChanged``, ``Overloaded``.
    """
    found = await database().read(units.credentials_of_id, user_id)
    if found is None or not found.is_active:
        raise NotAuthenticated
    if not (await passwords.verify_password(password, found.encoded)).ok:
        raise InvalidCredentials("The current password is wrong: check it and try again.")
    async with answered_evenly():
        await database().write(email_units.request_change, user_id=user_id, old=found.encoded, new_email=new_email)
    get_logger().info("email_change_requested", user_id=str(user_id))


async def _found(token: str, *purposes: Purpose) -> FoundToken:
    found = await database().read(email_tokens.find, token, *purposes)
    if found is None:
        raise InvalidEmailToken
    return found
