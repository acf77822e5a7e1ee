"""What WebAuthn's ceremonies exchange: credentials, assertions, and the error for answers that prove nothing."""

import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

type Json = Mapping[str, Any]


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
