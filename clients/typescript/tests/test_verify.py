"""The verifier of the TypeScript client: its own tests, a live server, and the blocks of its README."""

import asyncio
import re

import pytest

from conftest import PASSWORD
from ironauth.version import VERSION
from tokens.oauth.tests.clients.provider import Provider
from tokens.tests.browser import SIGNIN
from typescript.tests.build import PACKAGE, built, run


def test_what_it_accepts_and_refuses() -> None:
    """Its own tests pass, with a fake server; none is skipped."""
    said = run("--test", "--test-reporter", "tap", "tests/")
    counts = {
        name: int(count) for name, count in re.findall(r"^# (tests|pass|fail|skipped) (\d+)$", said, re.MULTILINE)
    }
    assert counts["tests"] == counts["pass"] >= 10
    assert counts["fail"] == counts["skipped"] == 0


@pytest.mark.django_db(transaction=True)
async def test_tokens_of_a_live_server(provider: Provider) -> None:
    """A real token is accepted by the server's own keys, a changed one is refused."""
    person = {"email": provider.person.email, "password": PASSWORD}
    signed_in = (await provider.person.browser.post(SIGNIN, json=person)).json()
    me = await provider.person.browser.get(
        "/api/v1/access/me", headers={"Authorization": f"Bearer {signed_in['access_token']}"}
    )
    said = await asyncio.to_thread(run, "tests/live.mjs", ISSUER=provider.issuer, TOKEN=signed_in["access_token"])
    assert said.splitlines() == [f"subject {me.json()['id']}", "refused true"]


def test_the_readme_compiles() -> None:
    """Each block of TypeScript is accepted by the compiler, against the package as it is published."""
    package = built()
    blocks = re.findall(r"```ts\n(.*?)```", (PACKAGE / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 3
    folder = package / "dist" / "readme"
    folder.mkdir(exist_ok=True)
    for number, block in enumerate(blocks):
        (folder / f"block{number}.ts").write_text(f"{block}\nexport {{}};\n", encoding="utf-8")
    names = [f"dist/readme/block{number}.ts" for number in range(len(blocks))]
    options = ["--noEmit", "--strict", "--skipLibCheck", "--target", "ES2022", "--module", "NodeNext"]
    run("node_modules/typescript/bin/tsc", *options, *names)


def test_its_version_is_the_servers() -> None:
    """One version for all that is published together."""
    assert f'"version": "{VERSION}"' in (PACKAGE / "package.json").read_text(encoding="utf-8")
