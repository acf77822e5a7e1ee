"""Signing in with a code that is mailed: asking for one, and a session for it. Async, keyword-only.

Between the two is a token. It says which code was asked for, and was asked here: a ``stateless_token`` of the code's id
and its expiry, 70 characters. Only the browser that asked for the code has it: a code that somebody is talked out of is
worth nothing without it.
"""

from typing import Final
from uuid import UUID

from accounts.email import codes
from accounts.errors import InvalidEmailCode
from accounts.outbox import tokens as email_tokens
from accounts.outbox.tokens import Purpose
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.crypto import stateless_token
from ironauth.infrastructure.crypto.master_keys import register_purpose
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.keys.store import key_store
from tokens.sessions.access_tokens import token_pair
from tokens.sessions.outputs import TokenPair
from tokens.sign_in import services

_KEY: Final = register_purpose("ironauth token of an e-mail code")
ID_BYTES: Final = 16
EXPIRY_BYTES: Final = 4  # until 2106
#: Seconds that a message may be on its way before the life of its code begins.
DELIVERY_S: Final = 3_600


def mint(code_id: UUID) -> str:
    """Return the token of a code that was just asked for."""
    expires_at = int(clock.unix() + DELIVERY_S + email_tokens.life(Purpose.SIGN_IN).total_seconds())
    return stateless_token.mint(_KEY, code_id.bytes + expires_at.to_bytes(EXPIRY_BYTES, "big"))


def parse(token: str) -> UUID | None:
    """Return the id of the code; None when this server did not make the token, or it has expired."""
    body = stateless_token.parse(_KEY, token, ID_BYTES + EXPIRY_BYTES)
    if body is None or clock.unix() >= int.from_bytes(body[ID_BYTES:], "big"):
        return None
    return UUID(bytes=body[:ID_BYTES])


async def ask(*, email: str, address: str) -> tuple[str, int]:
    """Have a code sent to the holder of this address; return what stands for it, and for how many minutes it works.

    Args:
        email: The address that was typed.
        address: The client's.

    Raises:
        Throttled: (429) too many messages were asked for by this client, or for this mailbox.
    """
    code_id = await codes.request_sign_in_code(email=email, address=address)
    return mint(code_id), int(email_tokens.life(Purpose.SIGN_IN).total_seconds() // 60)


async def sign_in(*, email: str, code: str, token: str, context: ClientContext) -> TokenPair:
    """Open a session for the person who has read the message of ``token``, and return its tokens.

    Args:
        email: The address that the code was asked for.
        code: What was typed.
        token: What asking for the code gave.
        context: Where the sign-in comes from.

    Raises:
        SigningKeyMissing: (503) before anything is used up, when no token could be signed.
        InvalidEmailCode: (401) the token is no good; see there.
        DomainError: What ``services.verify_email_code`` and ``services.open_session`` raise.
    """
    mark = token_cache().mark()
    key = await key_store().signing()
    code_id = parse(token)
    if code_id is None:
        raise InvalidEmailCode
    proof = await services.verify_email_code(code_id=code_id, code=code, email=email, context=context)
    return token_pair(await services.open_session(proof, context=context), key, mark)
