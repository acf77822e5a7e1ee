"""NAV's mock-oauth2-server, a provider that others test their applications with: started and stopped."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest

from ironauth import settings_test

REPOSITORY: Final = Path(__file__).resolve().parents[4]
START_S: Final = 120.0  # on a machine with everything else to do
MAIN: Final = "no.nav.security.mock.oauth2.StandaloneMockOAuth2ServerKt"


def installed(program: str = ".ci/find-mock-oauth2", *arguments: str) -> Path:
    """Return the folder of its libraries, or of what another such program installs; without it skip, or in CI fail."""
    command = ["sh", program, *arguments]
    found = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False)
    if found.returncode != 0:
        fail = pytest.fail if os.environ.get("CI") else pytest.skip
        fail(f"sh {program}: {found.stdout}{found.stderr}")
    return Path(found.stdout.splitlines()[-1])


@contextmanager
def mock_oauth2_server(folder: Path) -> Iterator[str]:
    """Run it with a page on which people sign in; its issuer.

    Args:
        folder: An empty folder for what it is told and what it says.
    """
    port = settings_test._free_port()
    issuer = f"http://127.0.0.1:{port}/staff"
    told = folder / "config.json"
    told.write_text(json.dumps({"interactiveLogin": True}), encoding="utf-8")
    environment = {
        **os.environ,
        "SERVER_HOSTNAME": "127.0.0.1",
        "SERVER_PORT": str(port),
        "JSON_CONFIG_PATH": str(told),
    }
    command = ["java", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", f"{installed()}/*", MAIN]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + START_S
        with httpx.Client(timeout=5) as client:
            while not _answers(client, issuer):
                if time.monotonic() > deadline or process.poll() is not None:
                    raise RuntimeError(f"mock-oauth2-server did not start: {(folder / 'log').read_text()[-3000:]}")
                time.sleep(0.2)
        yield issuer
    finally:
        process.terminate()
        process.wait(timeout=30)


def _answers(client: httpx.Client, issuer: str) -> bool:
    try:
        return client.get(f"{issuer}/.well-known/openid-configuration").status_code == 200
    except httpx.TransportError:
        return False
