"""A Keycloak of its own: a folder with its database, started and stopped, and exported by its own command."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from ironauth import settings_test

REPOSITORY: Final = Path(__file__).resolve().parents[4]
START_S: Final = 300.0  # it makes its tables first, on a machine with everything else to do
#: Less to compile while it runs, and no more memory than the tests' machine has to spare.
JAVA: Final = {"JAVA_OPTS_APPEND": "-XX:TieredStopAtLevel=1", "JAVA_OPTS_KC_HEAP": "-Xms128m -Xmx700m"}
ADMIN: Final = {"KC_BOOTSTRAP_ADMIN_USERNAME": "admin", "KC_BOOTSTRAP_ADMIN_PASSWORD": "the administrator's"}


def installed() -> Path:
    """Return the folder of an installed Keycloak; without it skip, or in CI fail."""
    found = subprocess.run(
        ["sh", ".ci/find-keycloak"], cwd=REPOSITORY, capture_output=True, text=True, timeout=600, check=False
    )
    if found.returncode != 0:
        fail = pytest.fail if os.environ.get("CI") else pytest.skip
        fail(f"sh .ci/find-keycloak: {found.stdout}{found.stderr}")
    return Path(found.stdout.splitlines()[-1])


class Keycloak:
    """One Keycloak with the realms it is given."""

    def __init__(self, home: Path, folder: Path, *realms: dict[str, Any]) -> None:
        """Prepare its folder.

        Args:
            home: The installed one; only read.
            folder: An empty folder for its database.
            realms: What it is to have; made when it starts.
        """
        self._folder = folder
        shutil.copytree(home / "bin", folder / "bin")  # its start script takes the folder it lies in for its home
        for part in ("lib", "providers", "conf"):
            (folder / part).symlink_to(home / part)
        imports = folder / "data" / "import"
        imports.mkdir(parents=True)
        for realm in realms:
            (imports / f"{realm['realm']}.json").write_text(json.dumps(realm), encoding="utf-8")
        self.base = f"http://127.0.0.1:{settings_test._free_port()}"
        self._realm = realms[0]["realm"]
        self._process: subprocess.Popen[bytes] | None = None

    def issuer(self, realm: str) -> str:
        """Return a realm's issuer."""
        return f"{self.base}/realms/{realm}"

    def start(self) -> None:
        """Start it, unless it runs, and wait until it answers."""
        if self._process is not None:
            return
        port = self.base.rpartition(":")[2]
        options = ("--http-enabled=true", "--hostname-strict=false", "--http-host=127.0.0.1", f"--http-port={port}")
        with (self._folder / "log").open("wb") as log:
            command = self._command("start", "--import-realm", *options)
            self._process = subprocess.Popen(command, env=self._environment(), stdout=log, stderr=log)
        deadline = time.monotonic() + START_S
        with httpx.Client(timeout=5) as client:
            while time.monotonic() < deadline and self._process.poll() is None:
                try:
                    if client.get(f"{self.issuer(self._realm)}/.well-known/openid-configuration").status_code == 200:
                        return
                except httpx.TransportError:
                    pass
                time.sleep(0.5)
        raise RuntimeError(f"Keycloak did not start: {(self._folder / 'log').read_text()[-3000:]}")

    def sign_out(self, realm: str, username: str) -> None:
        """End all sessions of somebody there, as its administrator does; it tells the applications."""
        with self._administrator() as client:
            client.post(f"/admin/realms/{realm}/users/{_id_of(client, realm, username)}/logout").raise_for_status()

    def id_of(self, realm: str, username: str) -> str:
        """Return the id that somebody has there."""
        with self._administrator() as client:
            return _id_of(client, realm, username)

    def imported(self, realm: str, people: dict[str, Any]) -> dict[str, int]:
        """Return how many people a partial import has added, overwritten and skipped."""
        with self._administrator() as client:
            answer = client.post(f"/admin/realms/{realm}/partialImport", json=people)
            assert answer.status_code == 200, answer.text
            said = answer.json()
            return {name: said[name] for name in ("added", "overwritten", "skipped")}

    def roles_of(self, realm: str, username: str) -> set[str]:
        """Return the names of the realm's roles that somebody has there."""
        with self._administrator() as client:
            found = f"/admin/realms/{realm}/users/{_id_of(client, realm, username)}/role-mappings/realm"
            return {str(role["name"]) for role in client.get(found).raise_for_status().json()}

    def lets_in(self, realm: str, username: str, password: str, code: str = "") -> bool:
        """Tell whether somebody signs in there, by the grant that its own command-line client has."""
        form = {"grant_type": "password", "client_id": "admin-cli", "username": username, "password": password}
        url = f"{self.issuer(realm)}/protocol/openid-connect/token"
        answer = httpx.post(url, data=form | ({"totp": code} if code else {}), timeout=30)
        assert answer.status_code in (200, 400, 401), answer.text
        return answer.status_code == 200

    @contextmanager
    def _administrator(self) -> Iterator[httpx.Client]:
        """Give a client that is signed in as the administrator."""
        with httpx.Client(base_url=self.base, timeout=30) as client:
            known = {"username": ADMIN["KC_BOOTSTRAP_ADMIN_USERNAME"], "password": ADMIN["KC_BOOTSTRAP_ADMIN_PASSWORD"]}
            form = {"grant_type": "password", "client_id": "admin-cli", **known}
            answer = client.post("/realms/master/protocol/openid-connect/token", data=form).raise_for_status()
            client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
            yield client

    def stop(self) -> None:
        """Stop it; its database stays."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=60)
            self._process = None

    def export(self) -> Path:
        """Return a folder with everything it knows, written by its own command; it is stopped for it."""
        self.stop()
        folder = self._folder / "export"
        command = self._command("export", "--dir", str(folder), "--users", "realm_file")
        subprocess.run(command, env=self._environment(), capture_output=True, timeout=START_S, check=True)
        return folder

    def _command(self, name: str, *options: str) -> list[str]:
        return [str(self._folder / "bin" / "kc.sh"), name, "--optimized", *options]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **JAVA, **ADMIN}


def _id_of(client: httpx.Client, realm: str, username: str) -> str:
    named = {"username": username, "exact": "true"}
    found = client.get(f"/admin/realms/{realm}/users", params=named).raise_for_status().json()
    return str(found[0]["id"])
