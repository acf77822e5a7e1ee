"""A provider of the tests' own, known here."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from tokens.upstream import discovery, providers
from tokens.upstream.tests.provider import FakeProvider, served
from tokens.upstream.tests.walk import stored


@pytest.fixture(scope="module")
def server() -> Iterator[FakeProvider]:
    """One server for all tests of this module."""
    with served() as provider:
        yield provider


@pytest.fixture
def provider(transactional_db: None, server: FakeProvider, settings: Settings) -> Iterator[FakeProvider]:
    """The server, honest again, and known here as *acme*."""
    settings.DEBUG = True  # http on this machine
    settings.IRONAUTH_UPSTREAM_NETWORKS = ["127.0.0.0/8"]
    server.__init__(server.issuer)  # type: ignore[misc] # back to the beginning
    stored("acme", server.issuer)
    discovery.forget()
    yield server
    providers.outdated()
