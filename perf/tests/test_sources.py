"""What the load generator's connections send and accept."""

import msgspec

from perf.load.sources import Constant, Source, TokenPair, form, get, post

HOST = "127.0.0.1:8000"


def pair(number: int) -> bytes:
    """Build an answer of the refresh endpoint."""
    return msgspec.json.encode(TokenPair(f"access-{number}", f"refresh-{number}"))


def sent(source: Source, answers: list[tuple[int, bytes]]) -> list[bool]:
    """Let a source ask and be answered in turn."""
    verdicts = []
    for status, body in answers:
        assert source.next_request() is not None
        verdicts.append(source.accept(status, body))
    return verdicts


def test_a_constant_answer_must_stay_as_it_was() -> None:
    """The first body is the only one, unless varying; a status that was not asked for is a failure."""
    assert sent(Constant(b"x"), [(200, b"a"), (200, b"a"), (200, b"b"), (204, b"a")]) == [True, True, False, False]
    assert sent(Constant(b"x", varying=True), [(200, b"a"), (200, b"b")]) == [True, True]
    assert sent(Constant(b"x", statuses=(204,)), [(204, b""), (200, b"")]) == [True, False]


def test_requests_are_spelt_as_http() -> None:
    """Credentials, cookies and bodies stand where HTTP/1.1 puts them, and the length is the body's."""
    assert (
        get("/me", HOST, "a.b.c") == b"GET /me HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nAuthorization: Bearer a.b.c\r\n\r\n"
    )
    assert get("/me", HOST, cookie="x=y") == b"GET /me HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nCookie: x=y\r\n\r\n"
    fields = "Host: 127.0.0.1:8000\r\nContent-Type: application/json\r\nContent-Length: 9\r\n"
    assert post("/x", HOST, {"a": "b"}) == f'POST /x HTTP/1.1\r\n{fields}\r\n{{"a":"b"}}'.encode()
    fields = "Host: 127.0.0.1:8000\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 8\r\n"
    assert form("/x", HOST, {"a": "b c", "d": ""}) == f"POST /x HTTP/1.1\r\n{fields}\r\na=b+c&d=".encode()
