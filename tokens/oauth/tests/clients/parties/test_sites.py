"""Sites made with Spring Security, pac4j and mod_auth_openidc sign people in with the client of the README's line."""

import asyncio
import secrets
import shutil
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from ironauth import settings_test
from ironauth.tests.docs.shell import found, running, shell
from tokens.clients.presets import PRESETS
from tokens.oauth.tests.clients.default import ran
from tokens.oauth.tests.clients.default.libraries import LIBRARIES, REVOKED, WITHOUT_PKCE, Library
from tokens.oauth.tests.clients.mock_oauth2 import installed
from tokens.oauth.tests.clients.parties import debian
from tokens.oauth.tests.clients.parties.site import REFRESH_TOKEN, Site, walked
from tokens.oauth.tests.clients.provider import Provider
from tokens.oauth.tests.walk import CHALLENGE, VERIFIER

pytestmark = pytest.mark.django_db(transaction=True)

HERE = Path(__file__).parent
JAVA = "exec java -XX:TieredStopAtLevel=1 -Xmx256m"


def known(name: str) -> Library:
    """Return a library."""
    return next(library for library in LIBRARIES if library.name == name)


async def compiled(name: str, folder: Path) -> Path:
    """Compile a site of Java; return the folder of its libraries."""
    libraries = await asyncio.to_thread(installed, ".ci/find-mock-oauth2", name, f"parties/{name}")
    command = f"{found('javac')} -nowarn -proc:none -parameters -cp '{libraries}/*' -d classes {HERE / name}/Site.java"
    await asyncio.to_thread(shell, command, folder)
    return libraries


def told(site: Site, client: dict[str, str]) -> dict[str, str]:
    """Return what a site is told by its environment."""
    own = {"CLIENT_ID": client["client_id"], "CLIENT_SECRET": client["client_secret"]}
    return {"ISSUER": site.provider.issuer, "PORT": str(site.port), "SITE": site.origin, **own}


async def test_spring_security(provider: Provider, tmp_path: Path) -> None:
    """The starter of Spring Boot, configured by properties; and its resource server, for tokens of RS256."""
    site, library = Site(provider), known("Spring Security")
    libraries = await compiled("spring", tmp_path)
    shutil.copy(HERE / "spring" / "application.yaml", tmp_path / "classes")
    client = await site.client(library.callback, "/signed-out", "/logout/connect/back-channel/ironauth")
    with running(f"{JAVA} -cp 'classes:{libraries}/*' parties.Site", tmp_path, site.port, **told(site, client)):
        steps = await walked(site, library, "/refresh", "/logout", "/signed-out")
        await api(site)
    ran.keep(library.name, library.version, steps)
    assert sorted(steps) == library.steps


async def api(site: Site) -> None:
    """The resource server verifies an access token of RS256 by the key set; one of Ed25519, and an ID token, never."""
    for alg, status in (("RS256", HTTPStatus.OK), ("", HTTPStatus.UNAUTHORIZED)):
        client = await site.provider.default_client(
            f"{site.origin}/callback", *(("--access-token-alg", alg) if alg else ())
        )
        tokens = await tokens_of(site, client)
        async with httpx.AsyncClient(base_url=site.origin, timeout=30) as asking:
            for token, expected in ((tokens["access_token"], status), (tokens["id_token"], HTTPStatus.UNAUTHORIZED)):
                answer = await asking.get("/api/me", headers={"Authorization": f"Bearer {token}"})
                assert answer.status_code == expected, (alg, answer.headers)


async def tokens_of(site: Site, client: dict[str, str]) -> dict[str, str]:
    """Sign in to a client by hand; return the tokens."""
    callback = f"{site.origin}/callback"
    asked = {
        "client_id": client["client_id"], "redirect_uri": callback, "response_type": "code", "scope": "openid email",
        "code_challenge": CHALLENGE, "code_challenge_method": "S256",
    }  # fmt: skip
    back = await site.provider.person.visit(f"{site.provider.issuer}/oauth/authorize?{urlencode(asked)}")
    known = {"code": parse_qs(urlsplit(back).query)["code"][0], "redirect_uri": callback, "code_verifier": VERIFIER}
    async with httpx.AsyncClient(base_url=site.provider.issuer, timeout=30) as asking:
        answer = await asking.post(
            "/oauth/token", data={"grant_type": "authorization_code", **known},
            auth=(client["client_id"], client["client_secret"]),
        )  # fmt: skip
    tokens: dict[str, str] = answer.json()
    assert answer.status_code == HTTPStatus.OK, answer.text
    return tokens


async def test_pac4j(provider: Provider, tmp_path: Path) -> None:
    """Its three filters in a servlet container."""
    site, library = Site(provider), known("pac4j")
    libraries = await compiled("pac4j", tmp_path)
    client = await site.client(library.callback, "/signed-out", library.callback)
    with running(f"{JAVA} -cp 'classes:{libraries}/*' parties.Site", tmp_path, site.port, **told(site, client)):
        steps = await walked(site, library, "/refresh", "/logout", "/signed-out")
    ran.keep(library.name, library.version, steps)
    assert sorted(steps) == library.steps


async def test_mod_auth_openidc(provider: Provider) -> None:
    """Apache, with its module as Debian has it; signing out revokes the refresh token."""
    apache = await asyncio.to_thread(debian.apache)
    site, library = Site(provider), known("mod_auth_openidc")
    client = await site.client(library.callback, "/signed-out", f"{library.callback}?logout=backchannel")
    configuration = (HERE / "apache" / "site.conf").read_text(encoding="utf-8")
    folder = folder_of(site, configuration)
    own = {"FOLDER": str(folder), "PASSPHRASE": secrets.token_urlsafe(32), **apache.variables, **told(site, client)}
    command = f"exec {apache.program} -X -f {folder}/site.conf"
    leave = f"/redirect?logout={site.origin}/signed-out"
    with running(command, folder, site.port, **own):
        refresh = f"/redirect?refresh={site.origin}/me&access_token={{token}}"
        steps = await walked(site, library, refresh, leave, "/signed-out")
        before = (await site.sign_in()).headers[REFRESH_TOKEN]
        await site.leave(leave)
        asked = {"grant_type": "refresh_token", "refresh_token": before}
        async with httpx.AsyncClient(base_url=provider.issuer, timeout=30) as asking:
            answer = await asking.post("/oauth/token", data=asked, auth=(client["client_id"], client["client_secret"]))
        assert answer.json()["error"] == "invalid_grant"
        steps.append(REVOKED)
    site = Site(provider)
    plain = {**PRESETS["oidc"].initial, "redirect_uris": [site.origin + library.callback]}
    folder = folder_of(site, configuration.replace("OIDCPKCEMethod S256\n", ""))
    own |= {"FOLDER": str(folder), **told(site, await provider.client(**plain))}
    with running(f"exec {apache.program} -X -f {folder}/site.conf", folder, site.port, **own):
        await site.sign_in()
        assert "code_challenge" not in site.asked
        steps.append(WITHOUT_PKCE)
    ran.keep(library.name, apache.version, steps)
    assert sorted(steps) == library.steps


def folder_of(site: Site, configuration: str) -> Path:
    """Make a folder of Apache's pages and configuration, which the user who serves, nobody, may read."""
    folder = settings_test.RUN_FOLDER / f"apache-{site.port}"
    folder.mkdir(mode=0o711)
    (folder / "pages").mkdir(mode=0o755)
    for page in ("me", "signed-out"):
        (folder / "pages" / page).write_text(page, encoding="utf-8")
    (folder / "site.conf").write_text(configuration, encoding="utf-8")
    return folder
