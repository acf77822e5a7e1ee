"""Documents fetched from a server over TLS: what it may answer, and what ends the conversation."""

import asyncio
import datetime
import ipaddress
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pytest_django import Settings

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.outbound import request as outbound
from tokens.clients.documents import fetching
from tokens.clients.documents.errors import DocumentRefused
from tokens.clients.fetched import fetching as fetched

HOST = "agent.example.com"


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for the host, its own authority; return its file and its key's."""
    key, now = ec.generate_private_key(ec.SECP256R1()), clock.now()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "cert.pem", folder / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


class Site:
    """The server of a document, and what it answers."""

    def __init__(self) -> None:
        self.url = ""
        self.answer: bytes | None = b""
        self.requests: list[bytes] = []

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request; None: begin an answer and never end it."""
        self.requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n" if self.answer is None else self.answer)
        await writer.drain()
        if self.answer is None:
            await reader.read()  # until the other side ends it
        writer.close()

    def says(self, body: bytes, *, status: str = "200 OK", headers: str = "Content-Type: application/json\r\n") -> None:
        """Set the answer."""
        self.answer = f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def document(self, **changes: Any) -> bytes:
        """Return its document."""
        return json.dumps({"client_id": self.url, "redirect_uris": ["http://127.0.0.1/cb"], **changes}).encode()


@pytest.fixture
async def site(settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Site]:
    """A server on this machine that is found under the name of a public one."""
    made, key = certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(made, key)
    found = Site()
    server = await asyncio.start_server(found.talk, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    found.url = f"https://{HOST}:{port}/client.json"
    here = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: here)
    trusting = ssl.create_default_context(cafile=str(made))
    monkeypatch.setattr(outbound, "_tls", lambda: trusting)
    settings.IRONAUTH_CLIENT_DOCUMENT_NETWORKS = [str(ipaddress.ip_network("127.0.0.0/8"))]
    async with server:
        yield found


async def test_fetched(site: Site) -> None:
    """One request with nothing of ours in it, and what its headers say of how long it may be used."""
    site.says(site.document(), headers="Content-Type: application/json\r\nCache-Control: max-age=120\r\n")
    found = await fetching.fetch(site.url)
    assert (found.said["client_id"], found.keep_s) == (site.url, 120)
    sent = site.requests[0].lower()
    assert sent.startswith(b"get /client.json http/1.1")
    assert b"cookie" not in sent
    assert b"authorization" not in sent


async def test_not_without_the_networks(site: Site, settings: Settings) -> None:
    """The same server is not connected to where its network was not named."""
    site.says(site.document())
    settings.IRONAUTH_CLIENT_DOCUMENT_NETWORKS = []
    with pytest.raises(DocumentRefused, match="NotPublicError"):
        await fetching.fetch(site.url)
    assert not site.requests


@pytest.mark.parametrize(("more", "good"), [(0, True), (1, False)])
async def test_longest(site: Site, more: int, good: bool) -> None:
    """5 KiB, and not one byte more."""
    body = site.document()
    body += b" " * (fetching.LONGEST - len(body) + more)
    site.says(body)
    if good:
        assert (await fetching.fetch(site.url)).said["client_id"] == site.url
    else:
        with pytest.raises(DocumentRefused, match="bytes"):
            await fetching.fetch(site.url)


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (lambda s: s.says(b"", status="302 Found", headers="Location: http://169.254.169.254/\r\n"), "status 302"),
        (lambda s: s.says(s.document(), status="301 Moved", headers="Location: /x\r\n"), "status 301"),
        (lambda s: s.says(s.document(), status="404 Not Found"), "status 404"),
        (lambda s: s.says(s.document(), status="201 Created"), "status 201"),
        (lambda s: s.says(s.document(), status="500 Oh"), "status 500"),
        (lambda s: s.says(s.document(), headers="Content-Type: text/html\r\n"), "content type"),
        (lambda s: s.says(s.document(), headers=""), "content type"),
        (lambda s: s.says(s.document(client_secret="x")), "secret"),
        (lambda s: s.says(s.document(client_id="https://agent.example.com/other")), "client_id"),
        (lambda s: s.says(b"\xff\xfe"), "no JSON"),
    ],
)
async def test_refused(site: Site, answer: Callable[[Site], None], cause: str) -> None:
    """No redirect is followed, and no other answer is a document."""
    answer(site)
    with pytest.raises(DocumentRefused, match=cause):
        await fetching.fetch(site.url)
    assert len(site.requests) == 1


async def test_broken_off(site: Site) -> None:
    """An answer that ends before its length is none."""
    body = site.document()
    site.answer = (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body) + 9}\r\n\r\n".encode()
    )
    site.answer += body
    with pytest.raises(DocumentRefused):
        await fetching.fetch(site.url)


async def test_too_slow(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that begins an answer and never ends it is left after the limit."""
    monkeypatch.setattr(fetched, "LIMIT_S", 0.3)
    site.answer = None
    with pytest.raises(DocumentRefused, match="TimeoutError"):
        await fetching.fetch(site.url)
