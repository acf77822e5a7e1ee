"""What each connection of the load generator sends, and which answers it accepts."""

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol
from urllib.parse import urlencode

import msgspec

OK, CREATED, NO_CONTENT = 200, 201, 204  # RFC 9110 §15.3


class Source(Protocol):
    """The requests of one connection, one after the other."""

    def next_request(self) -> bytes | None:
        """Return the bytes of the next request, or None to end this connection."""

    def accept(self, status: int, body: bytes) -> bool:
        """Look at the answer to the last request; False counts it as a failure."""


class TokenPair(msgspec.Struct):
    """The members of the contract's TokenPair that a client sends back."""

    access_token: str
    refresh_token: str


_pair = msgspec.json.Decoder(TokenPair)


def get(path: str, host: str, bearer: str = "", cookie: str = "") -> bytes:
    """Build a GET request; ``bearer`` is an access token, ``cookie`` a whole Cookie field."""
    return _request("GET", path, host, bearer, cookie)


def post(path: str, host: str, members: dict[str, str]) -> bytes:
    """Build a POST request with a JSON body."""
    return _request("POST", path, host, "", "", msgspec.json.encode(members))


def form(path: str, host: str, fields: Mapping[str, str]) -> bytes:
    """Build a POST request with a form as its body."""
    return _request("POST", path, host, "", "", urlencode(fields).encode(), "application/x-www-form-urlencoded")


def _request(
    method: str, path: str, host: str, bearer: str, cookie: str, body: bytes | None = None,
    media: str = "application/json",
) -> bytes:  # fmt: skip
    fields = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
    if body is not None:
        fields += [f"Content-Type: {media}", f"Content-Length: {len(body)}"]
    if bearer:
        fields.append(f"Authorization: Bearer {bearer}")
    if cookie:
        fields.append(f"Cookie: {cookie}")
    return "\r\n".join([*fields, "", ""]).encode() + (body or b"")


class Constant:
    """The same request again and again; the first body seen is the only one accepted after it, unless ``varying``.

    ``statuses``: what counts as an answer.
    """

    def __init__(self, request: bytes, *, varying: bool = False, statuses: Collection[int] = (OK,)) -> None:
        self._request = request
        self._varying = varying
        self._statuses = statuses
        self._body: bytes | None = None

    def next_request(self) -> bytes:
        """Return the next request; see ``Source``."""
        return self._request

    def accept(self, status: int, body: bytes) -> bool:
        """Check the answer; see ``Source``."""
        if status not in self._statuses:
            return False
        if self._body is None:
            self._body = body
        return self._varying or body == self._body


class SignIn:
    """Signs in the next of ``emails`` (shared by the connections) each time; ``pairs`` keeps what came back."""

    def __init__(self, host: str, emails: Iterator[str], password: str, pairs: list[TokenPair] | None = None) -> None:
        self._host = host
        self._emails = emails
        self._password = password
        self._pairs = pairs

    def next_request(self) -> bytes | None:
        """Return the next request; see ``Source``."""
        email = next(self._emails, None)
        if email is None:
            return None
        return post("/api/v1/access/signin", self._host, {"email": email, "password": self._password})

    def accept(self, status: int, body: bytes) -> bool:
        """Check the answer; see ``Source``."""
        if status != OK:
            return False
        pair = _decode(body)
        if pair is not None and self._pairs is not None:
            self._pairs.append(pair)
        return pair is not None


class SignUp:
    """Signs up a new person each time, named by ``serials`` (shared by the connections)."""

    def __init__(self, host: str, serials: Iterator[int], prefix: str, password: str) -> None:
        self._host = host
        self._serials = serials
        self._prefix = prefix
        self._password = password
        self._email = ""

    def next_request(self) -> bytes:
        """Return the next request; see ``Source``."""
        self._email = f"{self._prefix}{next(self._serials)}@bench.example"
        return post("/api/v1/access/signup", self._host, {"email": self._email, "password": self._password})

    def accept(self, status: int, body: bytes) -> bool:
        """Check the answer; see ``Source``."""
        return status == CREATED and self._email.encode() in body


class Refresh:
    """Keeps one session alive: every answer's refresh token is the next request's."""

    def __init__(self, host: str, refresh_token: str) -> None:
        self._host = host
        self._token = refresh_token

    def next_request(self) -> bytes:
        """Return the next request; see ``Source``."""
        return post("/api/v1/access/refresh", self._host, {"refresh_token": self._token})

    def accept(self, status: int, body: bytes) -> bool:
        """Check the answer; see ``Source``."""
        pair = _decode(body) if status == OK else None
        if pair is None or pair.refresh_token == self._token:
            return False
        self._token = pair.refresh_token
        return True


def _decode(body: bytes) -> TokenPair | None:
    try:
        return _pair.decode(body)
    except msgspec.DecodeError:
        return None
