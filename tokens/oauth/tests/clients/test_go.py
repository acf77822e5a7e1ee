"""go-oidc, where Go is installed."""

from pathlib import Path

import pytest

from tokens.oauth.tests.clients.program import converse, go_program
from tokens.oauth.tests.clients.provider import Provider
from tokens.oauth.tests.clients.test_javascript import material

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def go_oidc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program; asked for before the server, which need not start where it cannot be built."""
    return go_program(tmp_path_factory.mktemp("go"))


async def test_go_oidc(go_oidc: Path, provider: Provider) -> None:
    """go-oidc and x/oauth2 sign in by discovery alone, with keys of every kind, and verify the ID token."""
    steps = await converse(provider.person, await material(provider), go_oidc)
    assert steps == ["basic", "es256", "rs256"]
