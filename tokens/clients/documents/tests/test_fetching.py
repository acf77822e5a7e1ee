"""What a document may be, where it may be fetched from, and how long it is used."""

import json
import socket
from email.utils import format_datetime
from typing import Any

import pytest
from pytest_django import Settings

from ironauth.infrastructure.core import clock
from tokens.clients.documents import fetching
from tokens.clients.documents.errors import DocumentRefused
from tokens.clients.fetched.errors import FetchRefused
from tokens.clients.fetched.fetching import Answer, keep_s, media_of

URL = "https://agent.example.com/client.json"
SAID = {"client_id": URL, "client_name": "Agent", "redirect_uris": ["http://127.0.0.1/cb"]}


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/cimd+json"])
def test_a_document(kind: str) -> None:
    """A JSON object that names itself, whatever else it says."""
    said = {**SAID, "logo_uri": "https://agent.example.com/logo.png"}
    assert fetching.document_of(URL, Answer(json.dumps(said).encode(), media_of(kind), 60)) == said


@pytest.mark.parametrize(
    ("kind", "body", "cause"),
    [
        ("text/html", json.dumps(SAID), "content type"),
        ("", json.dumps(SAID), "content type"),
        ("text/json", json.dumps(SAID), "content type"),
        ("application/jsonp", json.dumps(SAID), "content type"),
        ("application/json", "", "no JSON"),
        ("application/json", "{", "no JSON"),
        ("application/json", "[]", "no object"),
        ("application/json", '{"client_id":"x","client_id":"' + URL + '"}', "no JSON"),
        ("application/json", "{}", "client_id"),
        ("application/json", json.dumps({**SAID, "client_id": URL + "/"}), "client_id"),
        ("application/json", json.dumps({**SAID, "client_id": URL.upper()}), "client_id"),
        ("application/json", json.dumps({**SAID, "client_id": [URL]}), "client_id"),
        ("application/json", json.dumps({**SAID, "client_secret": "x"}), "secret"),
        ("application/json", json.dumps({**SAID, "client_secret_expires_at": 0}), "secret"),
    ],
)
def test_refused(kind: str, body: str, cause: str) -> None:
    """Each for its own reason."""
    with pytest.raises(FetchRefused, match=cause):
        fetching.document_of(URL, Answer(body.encode(), media_of(kind), 60))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 3_600),
        ({"cache-control": "max-age=300"}, 300),
        ({"cache-control": "public, max-age=300, must-revalidate"}, 300),
        ({"cache-control": 'max-age="300"'}, 300),
        ({"cache-control": "max-age=300", "age": "100"}, 200),
        ({"cache-control": "max-age=300", "age": "400"}, 60),
        ({"cache-control": "max-age=59"}, 60),
        ({"cache-control": "max-age=61"}, 61),
        ({"cache-control": "max-age=86399"}, 86_399),
        ({"cache-control": "max-age=86401"}, 86_400),
        ({"cache-control": "max-age=999999999999"}, 3_600),
        ({"cache-control": "no-store, max-age=300"}, 60),
        ({"cache-control": "no-cache"}, 60),
        ({"cache-control": "x-max-age=300"}, 3_600),
        ({"expires": "0"}, 60),
        ({"expires": "Thu, 01 Jan 1970 00:00:00 GMT"}, 60),
    ],
)
def test_used_as_long_as_its_headers_say(headers: dict[str, str], seconds: float) -> None:
    """From a minute to a day; an hour where they say nothing."""
    assert keep_s(headers) == seconds


def test_expires() -> None:
    """The older header counts where there is no other."""
    later = format_datetime(clock.now().replace(microsecond=0), usegmt=True)
    with clock.shifted(-600):
        assert 590 <= keep_s({"expires": later}) <= 610


PRIVATE = [
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",  # noqa: S104 - what is refused
    "168.63.129.16", "::1", "::", "fe80::1", "fc00::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1",
    "2002:7f00:1::", "ff02::1",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
async def test_no_address_that_is_not_public(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """A name that leads into a network of the operator is not connected to, whatever form the address has."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    found = [(family, socket.SOCK_STREAM, 6, "", (address, 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    opened: list[Any] = []
    monkeypatch.setattr(socket, "socket", lambda *given: opened.append(given))
    with pytest.raises(DocumentRefused, match="NotPublicError"):
        await fetching.fetch(URL)
    assert not opened


async def test_one_private_address_among_public_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with several addresses is refused where one is not public: the next answer might begin with it."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 443)) for one in ("93.184.215.14", "127.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(DocumentRefused, match="NotPublicError"):
        await fetching.fetch(URL)


async def test_rebinding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is resolved once: the address that was judged is the one that is connected to."""
    answers = iter(["93.184.215.14", "127.0.0.1"])
    asked: list[str] = []

    def resolve(*_: Any, **__: Any) -> list[Any]:
        asked.append(next(answers))
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (asked[-1], 443))]

    connected: list[Any] = []

    class Line(socket.socket):
        def connect(self, where: Any) -> None:
            connected.append(where[0])
            raise ConnectionRefusedError

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "socket", Line)
    with pytest.raises(DocumentRefused):
        await fetching.fetch(URL)
    assert (asked, connected) == (["93.184.215.14"],) * 2


def test_no_network_is_allowed_to_begin_with(settings: Settings) -> None:
    """Not even this machine's."""
    assert not settings.IRONAUTH_CLIENT_DOCUMENT_NETWORKS
