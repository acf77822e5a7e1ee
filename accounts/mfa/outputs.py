"""What the API says about second factors; the field order is the contract's."""

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec


class PasskeyOut(msgspec.Struct, frozen=True):
    """A passkey, by the name its owner gave it."""

    id: uuid.UUID
    name: str
    created_at: datetime
    last_used_at: datetime | None


class PasskeyOptions(msgspec.Struct, frozen=True):
    """What to give the browser's ``navigator.credentials``, and the token to send back with its answer.

    ``publicKey``: its JSON form (``parseCreationOptionsFromJSON``, ``parseRequestOptionsFromJSON``).
    """

    challenge_token: str
    public_key: Mapping[str, Any] = msgspec.field(name="publicKey")


class AddedPasskey(msgspec.Struct, frozen=True, omit_defaults=True):
    """A new passkey; with the first factor also ten recovery codes, shown now and never again."""

    passkey: PasskeyOut
    recovery_codes: tuple[str, ...] = ()


class MfaOut(msgspec.Struct, frozen=True):
    """A person's second factors; without any, ``methods`` is empty and a password suffices.

    ``has_password``: whether there is one; who signs in with another provider, or by passkey alone, may have none.
    """

    methods: tuple[str, ...]
    totp: bool
    recovery_codes_left: int
    passkeys: tuple[PasskeyOut, ...]
    has_password: bool = True


class RecoveryCodes(msgspec.Struct, frozen=True):
    """Ten codes that each stand in for a factor once; shown now and never again."""

    recovery_codes: tuple[str, ...]
