"""What a node and a hash worker say to each other: bounds on every field, and nothing else gets through."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironauth.infrastructure.hashing.remote import protocol
from ironauth.infrastructure.hashing.remote.protocol import (
    Busy,
    Hash,
    Hashed,
    Load,
    Ping,
    Pong,
    ProtocolError,
    Refused,
)

HASH = Hash(b"m" * 32, b"s" * 16, 3, 65_536, 1, 32, 2, 19)
LOAD = Load(2, 5, 0.07)
FIELDS = HASH.__struct_fields__


@pytest.mark.parametrize("message", [HASH, Ping()])
def test_requests_arrive_as_they_were_sent(message: Hash | Ping) -> None:
    """The frame's length is its body's, and the body is the message."""
    sent = protocol.frame(message)
    assert protocol.body_length(sent[: protocol.HEADER_BYTES]) == len(sent) - protocol.HEADER_BYTES
    assert protocol.request(sent[protocol.HEADER_BYTES :]) == message


@pytest.mark.parametrize("message", [Hashed(b"r" * 32, LOAD), Busy(LOAD), Pong(LOAD), Refused()])
def test_answers_arrive_as_they_were_sent(message: protocol.Answer) -> None:
    """A request is no answer, nor the other way round."""
    body = protocol.frame(message)[protocol.HEADER_BYTES :]
    assert protocol.answer(body) == message
    with pytest.raises(ProtocolError):
        protocol.request(body)
    with pytest.raises(ProtocolError):
        protocol.answer(protocol.frame(Ping())[protocol.HEADER_BYTES :])


@pytest.mark.parametrize(
    ("field", "least", "most", "beyond"),
    [
        ("mac", b"m" * 32, b"m" * 32, (b"m" * 31, b"m" * 33)),
        ("salt", b"s" * 8, b"s" * 64, (b"s" * 7, b"s" * 65)),
        ("time_cost", 1, 20, (0, 21)),
        ("memory_kib", 8, 1_048_576, (7, 1_048_577)),
        ("parallelism", 1, 16, (0, 17)),
        ("hash_len", 16, 64, (15, 65)),
        ("variety", 0, 2, (-1, 3)),
        ("version", 16, 19, (15, 20)),
    ],
)
def test_every_field_has_its_bounds(field: str, least: Any, most: Any, beyond: tuple[Any, Any]) -> None:
    """What a stored hash may not ask for, a node may not ask of a worker either; a password's length never fits."""
    at = FIELDS.index(field) + 1
    given_fields: list[Any] = ["hash", *(getattr(HASH, name) for name in FIELDS)]
    for value in (least, most):
        given_fields[at] = value
        assert isinstance(protocol.request(msgspec.msgpack.encode(given_fields)), Hash)
    for value in beyond:
        given_fields[at] = value
        with pytest.raises(ProtocolError, match=r"^no request$"):
            protocol.request(msgspec.msgpack.encode(given_fields))


def test_one_field_too_many_is_no_message() -> None:
    """Nor is one too few."""
    fields: list[Any] = ["hash", *(getattr(HASH, name) for name in FIELDS)]
    for wrong in ([*fields, 1], fields[:-1]):
        with pytest.raises(ProtocolError):
            protocol.request(msgspec.msgpack.encode(wrong))


@pytest.mark.parametrize(("length", "allowed"), [(0, False), (1, True), (512, True), (513, False), (2**32 - 1, False)])
def test_a_body_is_announced_within_bounds(length: int, allowed: bool) -> None:
    """Nothing is allocated for a length that no message has."""
    header = length.to_bytes(4)
    if allowed:
        assert protocol.body_length(header) == length
    else:
        with pytest.raises(ProtocolError):
            protocol.body_length(header)


@given(st.binary(max_size=600))
def test_garbage_is_refused(body: bytes) -> None:
    """Whatever the bytes are, they are a message or a ProtocolError."""
    for read in (protocol.request, protocol.answer):
        try:
            read(body)
        except ProtocolError:
            continue
