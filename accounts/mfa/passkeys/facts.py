"""What WebAuthn's ceremonies exchange: credentials, assertions, and the error for answers that prove nothing.

``ceremonies`` itself brings py_webauthn, 6 MiB and 60 ms: it is loaded when somebody first uses a passkey.
"""

import asyncio
import uuid
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

type Json = Mapping[str, Any]

_ceremonies: ModuleType | None = None


class UnusableAnswer(ValueError):
    """The answer proves nothing. ``reason`` is for logs and tests: the client is told the same for all of them."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Known(NamedTuple):
    """A credential that exists, as browsers are told of it."""

    credential_id: bytes
    transports: str


class NewCredential(NamedTuple):
    """What a registration has proved the holder's authenticator to have made."""

    credential_id: bytes
    public_key: bytes
    sign_count: int
    transports: str
    backup_eligible: bool
    backed_up: bool
    aaguid: uuid.UUID


class Assertion(NamedTuple):
    """What an assertion's signature covers, and whose account the authenticator takes the credential to be of."""

    sign_count: int
    backup_eligible: bool
    backed_up: bool
    user_handle: bytes | None


async def load_ceremonies() -> ModuleType:
    """Return ``ceremonies``; imported the first time on a thread, because the event loop must not wait."""
    global _ceremonies  # noqa: PLW0603 - sys.modules has a module while its import goes on
    if _ceremonies is None:
        _ceremonies = await asyncio.to_thread(import_module, "accounts.mfa.passkeys.ceremonies")
    return _ceremonies
