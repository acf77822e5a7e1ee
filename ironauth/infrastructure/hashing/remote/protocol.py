"""What a node and a hash worker say to each other: frames of a length in four bytes and that much MessagePack.

One request is under way on a connection; its answer follows before the next. What travels of a password is its
HMAC-SHA-256 under a pepper, which is always 32 bytes: nothing else fits into the message.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from ironauth.infrastructure.hashing import argon2_bounds as bounds

HEADER_BYTES: Final = 4
MAX_BODY_BYTES: Final = 512  # the longest message takes about 130
MAC_BYTES: Final = 32  # HMAC-SHA-256

type _Salt = Annotated[bytes, Meta(min_length=bounds.SALT_LENGTHS[0], max_length=bounds.SALT_LENGTHS[-1])]
type _Length = Annotated[int, Meta(ge=bounds.HASH_LENGTHS[0], le=bounds.HASH_LENGTHS[-1])]


class ProtocolError(Exception):
    """What came is no message of this protocol."""


class _Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Fields by position; one more or one less is no message."""


class Hash(_Message, tag="hash", frozen=True):
    """Run Argon2 once. The bounds are those of a stored hash, checked when the message is read."""

    mac: Annotated[bytes, Meta(min_length=MAC_BYTES, max_length=MAC_BYTES)]
    salt: _Salt
    time_cost: Annotated[int, Meta(ge=1, le=bounds.MAX_TIME)]
    memory_kib: Annotated[int, Meta(ge=8, le=bounds.MAX_MEMORY_KIB)]
    parallelism: Annotated[int, Meta(ge=1, le=bounds.MAX_LANES)]
    hash_len: _Length
    variety: Literal[0, 1, 2]  # Argon2d, Argon2i, Argon2id: RFC 9106 §3.1
    version: Literal[16, 19]


class Ping(_Message, tag="ping", frozen=True):
    """Ask for nothing but the load."""


class Load(_Message, frozen=True):
    """What a worker is doing: ``ahead`` hashes queued and running on ``threads`` threads, ``mean_s`` seconds each."""

    threads: Annotated[int, Meta(ge=1, le=1024)]
    ahead: Annotated[int, Meta(ge=0)]
    mean_s: Annotated[float, Meta(gt=0, le=3600)]


class Hashed(_Message, tag="hashed", frozen=True):
    """The raw hash."""

    raw: Annotated[bytes, Meta(min_length=bounds.HASH_LENGTHS[0], max_length=bounds.HASH_LENGTHS[-1])]
    load: Load


class Busy(_Message, tag="busy", frozen=True):
    """It would wait too long: ask somebody else."""

    load: Load


class Pong(_Message, tag="pong", frozen=True):
    """The answer to a ping."""

    load: Load


class Refused(_Message, tag="refused", frozen=True):
    """The request is none, or beyond the bounds, or one that Argon2 refuses."""


type Request = Hash | Ping
type Answer = Hashed | Busy | Pong | Refused

_encoder: Final = msgspec.msgpack.Encoder()
_requests: Final[msgspec.msgpack.Decoder[Request]] = msgspec.msgpack.Decoder(Hash | Ping)
_answers: Final[msgspec.msgpack.Decoder[Answer]] = msgspec.msgpack.Decoder(Hashed | Busy | Pong | Refused)


def frame(message: Request | Answer) -> bytes:
    """Return what is sent for ``message``."""
    body = _encoder.encode(message)
    return len(body).to_bytes(HEADER_BYTES) + body


def body_length(header: bytes) -> int:
    """Return how many bytes follow.

    Raises:
        ProtocolError: no message has that many.
    """
    length = int.from_bytes(header)
    if not 0 < length <= MAX_BODY_BYTES:
        raise ProtocolError(f"a message of {length} bytes")
    return length


def request(body: bytes) -> Request:
    """Return the request in ``body``.

    Raises:
        ProtocolError: no request is in it.
    """
    try:
        return _requests.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):  # also beyond the bounds; the text may repeat the input
        raise ProtocolError("no request") from None


def answer(body: bytes) -> Answer:
    """Return the answer in ``body``.

    Raises:
        ProtocolError: no answer is in it.
    """
    try:
        return _answers.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ProtocolError("no answer") from None
