"""A provider of the tests' own, known here."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from tokens.upstream import discovery, exchange, providers
from tokens.upstream.tests.provider import FakeProvider, served
from tokens.upstream.tests.walk import stored


@pytest.fixture(scope="module")
def server() -> Iterator[FakeProvider]:
    """One server for all tests of this module."""
    with served(FakeProvider) as provider:
        yield provider


@pytest.fixture
def provider(
    transactional_db: None, server: FakeProvider, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeProvider]:
    """The server, honest again, and known here as *acme*; it may be slow on a busy machine."""
    monkeypatch.setattr(exchange, "LIMIT_S", 60.0)
    settings.DEBUG = True  # http on this machine
    settings.IRONAUTH_UPSTREAM_NETWORKS = ["127.0.0.0/8"]
    server.__init__(server.issuer)  # type: ignore[misc] # back to the beginning
    stored("acme", server.issuer)
    discovery.forget()
    yield server
    providers.outdated()
