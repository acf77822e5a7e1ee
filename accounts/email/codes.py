"""Codes of six digits that a message brings to a page: to prove an address after a sign-up, or to sign in.

A page keeps the id of the token, in a value made for one browser. A code is good for that id alone, once, and for a few
tries (``accounts.outbox.tokens``).
"""

import time
import uuid
from typing import Final

from accounts import email_address as emails
from accounts.audit import recording as audit
from accounts.audit.events import Reason
from accounts.audit.recording import Event, Outcome
from accounts.email import units as email_units
from accounts.email.units import BySignUp
from accounts.errors import InvalidEmailCode, InvalidEmailToken
from accounts.lockout import rate_limits, throttling
from accounts.lockout.throttling import Attempt
from accounts.outbox import tokens as email_tokens
from accounts.outbox.tokens import FoundToken, Purpose
from accounts.users import queries as user_queries
from accounts.users import services as accounts
from accounts.users.queries import Credentials
from accounts.users.services import Authenticated
from ironauth.infrastructure.core import base64url
from ironauth.infrastructure.core.constant_time import REFUSAL_STEP_S, answered_evenly, wait_for_step
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.crypto import sealing
from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError, register_purpose
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http.client_context import ClientContext
from ironauth.infrastructure.telemetry.logs import get_logger

log = get_logger()

_SIGN_UP: Final = register_purpose("ironauth sign-up of a page")
EPOCH_BYTES: Final = 4
ID_BYTES: Final = 16


def sealed_sign_up(*, email: str, user_id: uuid.UUID, epoch: int) -> str:
    """Return which account a page's sign-up has made, for the page to bring back; nobody can read it.

    An account that was not made, because the address was taken, has such a value too, of the same length.

    Args:
        email: The address that was signed up.
        user_id: The account's id.
        epoch: The epoch it was made in.
    """
    secret = user_id.bytes + epoch.to_bytes(EPOCH_BYTES, "big")
    key_id, sealed = sealing.seal(secret, _SIGN_UP, emails.fold(email).encode())
    return f"{base64url.encode(sealed)}.{key_id}"


async def sign_up_of(*, code_id: uuid.UUID, email: str) -> str:
    """Return what `sealed_sign_up` says of the sign-up whose message has this token; of an unknown one, of nobody.

    Args:
        code_id: The token.
        email: The address that was signed up.
    """
    user_id, epoch = await database().read(email_tokens.holder_of, code_id)
    return sealed_sign_up(email=email, user_id=user_id, epoch=epoch)


def _opened_sign_up(sign_up: str, key: str) -> tuple[uuid.UUID, int]:
    """Return the account's id and epoch; an id that nobody has where the master key has left the settings."""
    text, _, key_id = sign_up.partition(".")
    sealed = base64url.decode(text, len(text))
    try:
        secret = sealing.unseal(key_id, sealed or b"", _SIGN_UP, key.encode())
    except (MasterKeyMissingError, sealing.SealBrokenError):
        return uuid.UUID(int=0), 0
    return uuid.UUID(bytes=secret[:ID_BYTES]), int.from_bytes(secret[ID_BYTES:], "big")


async def confirm_sign_up(
    *, code_id: uuid.UUID, code: str, email: str, context: ClientContext
) -> tuple[Credentials, Attempt | None]:
    """Prove the address of the account that a page's sign-up has made.

    A wrong code is a failure of the account, as a wrong password is: five tries for each message would be thousands a
    day for somebody who has message after message sent to a mailbox that is not theirs.

    Args:
        code_id: The token of the sign-up, as the page has kept it.
        code: What was typed.
        email: The address that was signed up.
        context: Where the sign-up comes from.

    Returns:
        The account, and the try, whose counts are reset when the session is opened.

    Raises:
        InvalidEmailCode: (401) see there.
        Throttled: (429) the account or the client has failed too often.
    """
    began = time.monotonic_ns()
    attempt, _ = await accounts.admit(email, context)
    try:
        found = await database().write(email_tokens.take_try, code_id, code, Purpose.VERIFY_EMAIL)
    except Unavailable:
        await throttling.give_back(attempt)
        raise
    if found is None:
        await wait_for_step(began, REFUSAL_STEP_S)  # a token that is there takes longer than one that is gone
        raise InvalidEmailCode
    try:
        await database().write(email_units.confirm, found=found, owner=BySignUp())
    except InvalidEmailToken as error:
        raise InvalidEmailCode from error
    account = await database().read(user_queries.credentials_of_id, found.user_id)
    if account is None:
        raise InvalidEmailCode
    await throttling.release_windows(attempt)
    log.info("email_verified", user_id=str(found.user_id))
    return account, attempt


async def repeat_sign_up_code(*, sign_up: str, email: str, address: str, page: str = "") -> uuid.UUID:
    """Send another message for a page's sign-up; return the token whose code is good now.

    It is a new token every time, from whichever of its pages somebody asks, and whether or not the address was taken.

    Args:
        sign_up: What `sealed_sign_up` returned.
        email: The address that the page has asked for.
        address: The client's.
        page: The route of the page that the link opens; "" for the one that goes on nowhere.

    Raises:
        Throttled: (429) too many messages were asked for by this client, or for this mailbox.
    """
    async with answered_evenly():
        await rate_limits.admit_mail(kind="verification", email=email, address=address)
        key = emails.fold(email)
        user_id, epoch = _opened_sign_up(sign_up, key)
        unit = email_units.repeat_sign_up_code
        return await database().write(unit, key, user_id=user_id, epoch=epoch, page=page)


async def request_sign_in_code(*, email: str, address: str, page: str = "") -> uuid.UUID:
    """Have a code sent to the holder of this address; return the token it belongs to, whether or not anybody has.

    Args:
        email: The address that was typed.
        address: The client's.
        page: The route of the page that a link in the message opens; "" for a message without a link.

    Raises:
        Throttled: (429) too many messages were asked for by this client, or for this mailbox.
    """
    async with answered_evenly():
        await rate_limits.admit_mail(kind="sign-in", email=email, address=address)
        return await database().write(email_units.request_sign_in_code, emails.fold(email), page=page)


async def judge_sign_in_code(
    *, code_id: uuid.UUID, code: str, email: str, context: ClientContext
) -> tuple[Authenticated, uuid.UUID | None]:
    """Return who has this address, if the code is right.

    A wrong code is a failure of the account, as a wrong password is: what strangers may try is bounded together.

    Args:
        code_id: The token that the code belongs to.
        code: What was typed.
        email: The address that the code was asked for.
        context: Where the sign-in comes from.

    Returns:
        The person, and the token to be used up when they are let in; None where it was used up to prove their address.

    Raises:
        InvalidEmailCode: (401) see there.
        PasswordChangeRequired: (403) the code is right, and staff have asked for another password.
        Throttled: (429) the account or the client has failed too often.
    """
    began = time.monotonic_ns()
    attempt, account = await accounts.admit(email, context)
    try:
        found = await database().write(email_tokens.take_try, code_id, code, Purpose.SIGN_IN)
    except Unavailable:
        await throttling.give_back(attempt)
        raise
    if found is None or account is None or found.user_id != account.id:
        user_id = account.id if account else None
        log.info("sign_in_refused", user_id=str(user_id) if user_id else None)
        details = {"reason": Reason.WRONG_CODE if account else Reason.NO_ACCOUNT}
        await audit.record_later(Event.SIGN_IN, outcome=Outcome.FAILURE, user_id=user_id, details=details)
        await wait_for_step(began, REFUSAL_STEP_S)
        raise InvalidEmailCode
    return await _admitted(account, found, attempt)


async def opened_link(*, token: str, address: str) -> FoundToken:
    """Return what the link of a message signs in; nothing is used up.

    Args:
        token: What the link has brought.
        address: The client's.

    Raises:
        InvalidEmailToken: (400) it signs nobody in.
        Throttled: (429) in its place, after too many of those from this client.
    """
    found = await database().read(email_tokens.find, token, Purpose.SIGN_IN)
    if found is None:
        await rate_limits.admit(rate_limits.EMAIL_TOKEN, address=address)
        raise InvalidEmailToken
    return found


async def judge_sign_in_link(*, code_id: uuid.UUID, token: str, address: str) -> tuple[Authenticated, uuid.UUID | None]:
    """Return who has opened the link of a message, in the browser that asked for it; see `judge_sign_in_code`.

    No count of failures stands in the way, as with a link that sets a password: nobody guesses 256 bits.

    Args:
        code_id: The token that the browser has asked for.
        token: What the link has brought.
        address: The client's.

    Raises:
        InvalidEmailToken: (400) it signs nobody in, or another browser has asked for it.
        EmailNotVerified, PasswordChangeRequired, Throttled: as there.
    """
    found = await opened_link(token=token, address=address)
    account = await database().read(user_queries.credentials_of_id, found.user_id)
    if found.id != code_id or account is None:
        raise InvalidEmailToken
    return await _admitted(account, found, None)


async def _admitted(
    account: Credentials, found: FoundToken, attempt: Attempt | None
) -> tuple[Authenticated, uuid.UUID | None]:
    """Return who it is that has read a message, and its token; see `judge_sign_in_code`.

    Proves the address where nobody has yet: second factors that a stranger has set up are gone then.
    """
    token_id: uuid.UUID | None = found.id
    if account.email_verified_at is None:
        try:
            account, token_id = await database().write(email_units.prove_by_code, found), None
        except InvalidEmailToken as error:
            raise InvalidEmailCode from error
        log.info("email_verified", user_id=str(account.id))
    if account.methods:
        await throttling.give_back(attempt)
        attempt = None
    await throttling.release_windows(attempt)
    await accounts.require_admissible(account)
    return Authenticated(account.id, account.session_epoch, account.methods, attempt), token_id
