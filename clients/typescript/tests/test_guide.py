"""The guides for Node.js and for single-page applications: what they print works against the package."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest
from asgiref.sync import sync_to_async

from ironauth import settings_test
from ironauth.tests.docs.blocks import Guide
from ironauth.tests.docs.shell import running, shell
from tokens.oauth.tests.clients.program import JAVASCRIPT, node
from tokens.oauth.tests.clients.provider import Provider
from tokens.oauth.tests.material import make_client
from tokens.protocol import GrantType
from typescript.tests.build import built, run

pytestmark = pytest.mark.django_db(transaction=True)


#: What the guide's page takes of React: enough to compile it, since React is not here.
REACT = """
declare module "react" {
  export const StrictMode: (given: { children?: unknown }) => JSX.Element;
  export function useEffect(effect: () => void, on: unknown[]): void;
  export function useState<T>(): [T | undefined, (now: T | undefined) => void];
}
declare module "react-dom/client" {
  export function createRoot(at: HTMLElement): { render(what: JSX.Element): void };
}
declare namespace JSX {
  interface Element { readonly element: unique symbol }
  interface IntrinsicElements { h1: { children?: unknown }; button: { children?: unknown; onClick?: () => void } }
}
declare const React: { createElement: unknown; Fragment: unknown };
"""


def test_single_page_application() -> None:
    """Its three files are accepted by the compiler, against the package as it is published."""
    folder = built() / "dist" / "guide"
    files = ("src/session.ts", "src/main.tsx", "src/App.tsx")
    with Guide("docs/guides/single-page-app.md") as guide:
        guide.block(".venv/bin/python manage.py oauth_client create")  # ironauth/tests/docs/test_commands.py runs it
        guide.write(folder, *files)
    (folder / "react.d.ts").write_text(REACT, encoding="utf-8")
    options = ["--noEmit", "--strict", "--skipLibCheck", "--target", "ES2022", "--module", "ESNext", "--jsx", "react"]
    options += ["--moduleResolution", "bundler", "--lib", "ES2022,DOM,DOM.Iterable"]
    run("node_modules/typescript/bin/tsc", *options, "dist/guide/react.d.ts", *(f"dist/guide/{name}" for name in files))


async def own_token(provider: Provider, scope: str) -> str:
    """Return a client's own token with a scope."""
    robot = {"grants": [GrantType.CLIENT_CREDENTIALS], "scopes": ["orders:read", "orders:write"], "redirect_uris": []}
    row, secret = await sync_to_async(make_client)(**robot)
    form = {"grant_type": "client_credentials", "scope": scope}
    answer = await provider.person.browser.post("/oauth/token", data=form, auth=(str(row.pk), secret))
    return str(answer.json()["access_token"])


async def test_node(provider: Provider, tmp_path: Path) -> None:
    """200 with the scope, 403 without, 401 without a good token, 503 where the keys cannot be reached."""
    node()
    (tmp_path / "node_modules").mkdir()
    for name, there in (
        ("express", JAVASCRIPT / "node_modules" / "express"),
        ("jose", JAVASCRIPT / "node_modules" / "jose"),
        ("ironauth-client", built()),
    ):
        (tmp_path / "node_modules" / name).symlink_to(there)
    good, poor = await own_token(provider, "orders:read"), await own_token(provider, "orders:write")
    port = settings_test._free_port()
    changes = (("https://id.example.com", provider.issuer), ("8001", str(port)))
    with Guide("docs/guides/node.md", *changes) as guide:
        guide.write(tmp_path, "service.mjs", "server.mjs")
        start, call = guide.block("ISSUER="), guide.block("curl")
    nowhere = start.replace(provider.issuer, f"http://127.0.0.1:{settings_test._free_port()}")
    for name in ("server.mjs", "service.mjs"):
        with running(start.replace("server.mjs", name), tmp_path, port):
            said = await asyncio.to_thread(shell, call, tmp_path, TOKEN=good)
            assert list(json.loads(said)) == ["person"]
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as asking:

                async def status(header: str, asking: httpx.AsyncClient = asking) -> int:
                    return (
                        await asking.get("/orders", headers={"Authorization": header} if header else {})
                    ).status_code

                assert await status(f"Bearer {poor}") == 403
                assert await status("") == await status("Bearer x") == await status(f"Bearer {good[:-4]}AAAA") == 401
        with running(nowhere.replace("server.mjs", name), tmp_path, port):
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as asking:
                answer = await asking.get("/orders", headers={"Authorization": f"Bearer {good}"})
            assert answer.status_code == 503
