"""go-oidc, where Go is installed."""

from pathlib import Path

import pytest

from tokens.oauth.tests.clients.program import GO, converse, go_program
from tokens.oauth.tests.clients.provider import Provider
from tokens.oauth.tests.clients.test_javascript import material

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def go_oidc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program; asked for before the server, which need not start where it cannot be built."""
    return go_program(GO, tmp_path_factory.mktemp("go"))


async def test_go_oidc(go_oidc: Path, provider: Provider) -> None:
    """go-oidc and x/oauth2 sign in by discovery alone, with keys of every kind, and verify the ID token."""
    given = await material(provider)
    given["clients"]["default"] = await provider.default_client()
    steps = await converse(provider.person, given, go_oidc)
    assert steps == ["default", "basic", "es256", "rs256"]
