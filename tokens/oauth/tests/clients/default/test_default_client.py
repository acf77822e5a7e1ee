"""Every library signs in with the client of the README's own line, and finds the key by its kid.

In the gate it signs in and refuses what is wrong; in `make clients` it does all that it can, which makes the page.
"""

from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from tokens.clients.presets import PRESETS
from tokens.keys.key_set import Family
from tokens.keys.units import create_first_keys, rotate
from tokens.oauth.tests.clients.default import page, ran
from tokens.oauth.tests.clients.default.judges import JUDGES, Judge
from tokens.oauth.tests.clients.default.libraries import LIBRARIES, SIGNED_IN, WITHOUT_PKCE, Library
from tokens.oauth.tests.clients.default.ran import FOLDER, NETWORKS
from tokens.oauth.tests.clients.mock_oauth2 import installed
from tokens.oauth.tests.clients.program import GO, converse, go_program, node, own_python
from tokens.oauth.tests.clients.provider import GONE, Provider
from tokens.oauth.tests.clients.told import Told, listening

pytestmark = pytest.mark.django_db(transaction=True)

GO_APART = "go-oidc"  # its program is that of test_go.py, which has the default client among others
HERE = [library for library in LIBRARIES if not library.apart]


@pytest.fixture
def server_settings(signing_key: str) -> dict[str, str]:
    """Rotate the keys of RS256 before the server starts: there are three, and the one in the middle signs."""
    assert signing_key
    create_first_keys(Family.RS256)
    rotate(Family.RS256, at_once=True)
    return {"IRONAUTH_LOGOUT_NETWORKS": NETWORKS}


async def client_of(provider: Provider, library: Library, told: Told) -> dict[str, Any]:
    """Make a library's client, which hears of sign-outs."""
    uri = library.redirect_uri
    if library.public:
        return await provider.client(**PRESETS[library.public].initial, redirect_uris=[uri])
    with override_settings(DEBUG=True, IRONAUTH_LOGOUT_NETWORKS=[NETWORKS]):
        places = ("--post-logout-redirect-uri", GONE, "--backchannel-logout-uri", told.uri)
        return await provider.default_client(uri, *places)


async def signs_in(provider: Provider, library: Library, *command: str | Path) -> None:
    """Run a library's program with its client."""
    with listening() as told:
        client = await client_of(provider, library, told)
        whole = FOLDER is not None
        asked = {"issuer": provider.issuer, "redirect_uri": library.redirect_uri, "email": provider.person.email}
        given: dict[str, Any] = {**asked, **client, "whole": whole, "gone": GONE, "plain": False}
        if library.name == GO_APART:
            given["clients"] = {"default": client}
        steps = await converse(provider.person, given, *command, told=told)
    if whole:
        if library.may_be_plain:
            steps.append(await without_pkce(provider, library, given, *command))
        ran.keep(library.name, library.version, steps)
        by_chromium = library.more if library.public == "spa" else ()  # clients/parties/test_browser.py
        assert sorted({*steps, *by_chromium}) == library.steps, library.name
    else:
        assert steps == [SIGNED_IN, library.refused], library.name


async def without_pkce(provider: Provider, library: Library, given: dict[str, Any], *command: str | Path) -> str:
    """Run a library's program without its option for PKCE, with its profile's client; return the step."""
    client = await provider.client(**PRESETS["oidc"].initial, redirect_uris=[library.redirect_uri])
    again = {**given, **client, "plain": True, "clients": {"default": client}}
    assert await converse(provider.person, again, *command) == [SIGNED_IN], library.name
    return WITHOUT_PKCE


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
    for library in HERE:
        if library.language == "js":
            await signs_in(provider, library, command, library.source)


async def test_libraries_of_python(provider: Provider) -> None:
    """In an environment of their own."""
    command = own_python()
    await choice(provider)
    for library in HERE:
        if library.language == "python":
            await signs_in(provider, library, command, library.source)


async def test_libraries_of_go(tmp_path: Path, provider: Provider) -> None:
    """Each is a module of its own below ``go/``."""
    await choice(provider)
    for library in HERE:
        if library.language == "go" and (FOLDER is not None or library.name != GO_APART):
            assert (library.source.parent == GO) == (library.name == GO_APART)
            await signs_in(provider, library, go_program(library.source.parent, tmp_path))


async def test_libraries_of_java(provider: Provider) -> None:
    """A program is one file, which Java compiles as it starts; the library came with mock-oauth2-server."""
    folder = installed()
    await choice(provider)
    for library in HERE:
        if library.language == "java":
            await signs_in(provider, library, "java", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}/*", library.source)


def test_the_page_shows_the_lines_that_ran() -> None:
    """Held equal to the programs and to what passed; `make clients` writes it."""
    assert page.PAGE.read_text(encoding="utf-8") == page.page()
    assert page.AGENTS.read_text(encoding="utf-8") == page.agents()


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
def test_what_the_page_says_has_run(library: Library) -> None:
    """All that a library may do has passed in the version that is pinned: run `make clients` after a change of it."""
    assert ran.kept()[library.name] == {"version": library.version, "steps": library.steps}


@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.name)
def test_what_the_guide_says_has_run(judge: Judge) -> None:
    """So has each judge of agents."""
    assert ran.kept()[judge.name]["version"] == judge.version


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
def test_an_option_has_a_reason(library: Library) -> None:
    """Who has to be told something reads why, and nobody else reads a reason."""
    assert bool(library.reason) is (library.option != "none")
