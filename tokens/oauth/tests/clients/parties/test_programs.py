"""Libraries that the gate leaves out: next-auth 4 and AppAuth, in JavaScript and for Android, each with its client."""

import asyncio
import zipfile
from pathlib import Path

import pytest

from ironauth import settings_test
from tokens.clients.presets import PRESETS
from tokens.oauth.tests.clients.default import ran
from tokens.oauth.tests.clients.default.libraries import LIBRARIES, SIGNED_IN, WITHOUT_PKCE
from tokens.oauth.tests.clients.mock_oauth2 import installed
from tokens.oauth.tests.clients.program import PARTIES, converse, node
from tokens.oauth.tests.clients.provider import GONE, Provider

pytestmark = pytest.mark.django_db(transaction=True)


async def test_libraries_of_javascript(provider: Provider) -> None:
    """One server for both."""
    command = node(PARTIES / "javascript")
    for library in LIBRARIES:
        if library.apart and library.language == "js":
            uri = library.redirect_uri
            if library.public == "native":  # it listens on a port of the person's device
                uri = f"http://127.0.0.1:{settings_test._free_port()}/callback"
                fields = {**PRESETS["native"].initial, "redirect_uris": ["http://127.0.0.1/callback"]}
                client = await provider.client(**fields)
            else:
                client = await provider.default_client(uri)
            given = {"issuer": provider.issuer, "redirect_uri": uri, "email": provider.person.email, **client}
            steps = await converse(provider.person, {**given, "plain": False}, command, library.source)
            if library.may_be_plain:
                plain = await provider.client(**PRESETS["oidc"].initial, redirect_uris=[uri])
                again = await converse(provider.person, {**given, **plain, "plain": True}, command, library.source)
                assert again == [SIGNED_IN], library.name
                steps.append(WITHOUT_PKCE)
            ran.keep(library.name, library.version, steps)
            assert sorted(steps) == library.steps, library.name


async def test_appauth_for_android(provider: Provider, tmp_path: Path) -> None:
    """Its classes beside those of Android, on this machine's Java."""
    folder = await asyncio.to_thread(installed, ".ci/find-mock-oauth2", "appauth", "parties/appauth")
    (library,) = [one for one in LIBRARIES if one.name == "AppAuth for Android"]
    (archive,) = folder.glob("appauth-*.aar")
    zipfile.ZipFile(archive).extract("classes.jar", tmp_path)
    uri = "com.example.shop:/callback"
    client = await provider.client(**{**PRESETS["native"].initial, "redirect_uris": [uri]})
    given = {"issuer": provider.issuer, "redirect_uri": uri, "email": provider.person.email, "gone": GONE, **client}
    path = f"{tmp_path}/classes.jar:{folder}/*"
    steps = await converse(provider.person, given, "java", "-XX:TieredStopAtLevel=1", "-cp", path, library.source)
    ran.keep(library.name, library.version, steps)
    assert sorted(steps) == library.steps
