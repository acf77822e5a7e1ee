"""Every library signs in with the client of the README's own line, and finds the key by its kid."""

from pathlib import Path
from typing import Any

import pytest

from tokens.clients.presets import PRESETS
from tokens.keys.key_set import Family
from tokens.keys.units import create_first_keys, rotate
from tokens.oauth.tests.clients.default import libraries
from tokens.oauth.tests.clients.default.libraries import LIBRARIES, Library
from tokens.oauth.tests.clients.mock_oauth2 import installed
from tokens.oauth.tests.clients.program import GO, converse, go_program, node, own_python
from tokens.oauth.tests.clients.provider import Provider

pytestmark = pytest.mark.django_db(transaction=True)

GO_APART = "go-oidc"  # its program is that of test_go.py, which has the default client among others


@pytest.fixture
def server_settings(signing_key: str) -> dict[str, str]:
    """Rotate the keys of RS256 before the server starts: there are three, and the one in the middle signs."""
    assert signing_key
    create_first_keys(Family.RS256)
    rotate(Family.RS256, at_once=True)
    return {}


async def signs_in(provider: Provider, library: Library, *command: str | Path) -> None:
    """Run a library's program with its client."""
    uri = library.redirect_uri
    if library.public:
        client = await provider.client(**PRESETS["spa"].initial, redirect_uris=[uri])
    else:
        client = await provider.default_client(uri)
    given = {"issuer": provider.issuer, "redirect_uri": uri, "email": provider.person.email, **client}
    assert await converse(provider.person, given, *command) == ["signed in", library.refused], library.name


async def choice(provider: Provider) -> None:
    """Assert that no library gets by with the first key, nor with the last, nor with the only one of its kind."""
    keys: list[dict[str, Any]] = (await provider.person.browser.get("/.well-known/jwks.json")).json()["keys"]
    algs = [key["alg"] for key in keys]
    assert algs.count("RS256") == 3
    assert len(set(algs)) == 3
    assert len({key["kid"] for key in keys}) == len(keys)


async def test_libraries_of_javascript(provider: Provider) -> None:
    """One server for all of them, because a start takes seconds."""
    command = node()
    await choice(provider)
    for library in LIBRARIES:
        if library.language == "js":
            await signs_in(provider, library, command, library.source)


async def test_libraries_of_python(provider: Provider) -> None:
    """In an environment of their own."""
    command = own_python()
    await choice(provider)
    for library in LIBRARIES:
        if library.language == "python":
            await signs_in(provider, library, command, library.source)


async def test_libraries_of_go(tmp_path: Path, provider: Provider) -> None:
    """Each is a module of its own below ``go/``."""
    await choice(provider)
    for library in LIBRARIES:
        if library.language == "go" and library.name != GO_APART:
            assert library.source.parent != GO
            await signs_in(provider, library, go_program(library.source.parent, tmp_path))


async def test_libraries_of_java(provider: Provider) -> None:
    """A program is one file, which Java compiles as it starts; the library came with mock-oauth2-server."""
    folder = installed()
    await choice(provider)
    for library in LIBRARIES:
        if library.language == "java":
            await signs_in(provider, library, "java", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}/*", library.source)


def test_the_page_shows_the_lines_that_ran() -> None:
    """Held equal to the programs and their pins; ``libraries`` writes it when it is run."""
    assert libraries.PAGE.read_text(encoding="utf-8") == libraries.page()


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
def test_an_option_has_a_reason(library: Library) -> None:
    """Who has to be told something reads why, and nobody else reads a reason."""
    assert bool(library.reason) is (library.option != "none")
