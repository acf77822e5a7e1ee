"""Servers with people and one client of theirs, and the builds of Argon2 they hash with."""

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ironauth.config.checks import default_hash_threads
from perf.load.oauth_messages import Application, application_of, make_client
from perf.rig.processes import Server, StartError, free_port
from perf.rig.site_setup import prepare_site, private_servers, serve, site_environment

PACKAGE: Final = "argon2-cffi-bindings"
NATIVE_FLAGS: Final = MappingProxyType({"CFLAGS": "-O3 -march=native"})  # as requirements/argon2-native.sh
BUILD_S: Final = 300  # longest that fetching or compiling the bindings may take
PEOPLE = 2_000  # who take turns in signing in


@dataclass(frozen=True)
class Site:
    """A server, and what the client of its database knows."""

    server: Server
    application: Application


def start(folder: Path, storage: str, builds: Mapping[str, Path], stack: ExitStack) -> dict[str, Site]:
    """Start a server with each build of Argon2, all on one database of ``storage``; ``stack`` ends them.

    Raises:
        StartError: something is not installed, a preparing command failed, or a server did not start.
    """
    folder.mkdir()
    environment = site_environment(folder, port=free_port(), hash_threads=default_hash_threads())
    if storage == "postgres":
        environment |= private_servers(folder, stack)
    prepare_site(environment, people=PEOPLE)
    client = make_client(environment)
    return {
        name: _open(folder / f"server-{number}.log", {**environment, "PYTHONPATH": str(build)}, client, stack)
        for number, (name, build) in enumerate(builds.items())
    }


def _open(log: Path, environment: dict[str, str], client: Mapping[str, str], stack: ExitStack) -> Site:
    server = serve(log, free_port(), environment, stack)
    return Site(server, application_of(server.host, environment["IRONAUTH_ISSUER"], client))


def install(folder: Path, kind: str, environment: Mapping[str, str] = MappingProxyType({})) -> Path:
    """Install the pinned bindings into ``folder``, from the wheel or from source; return it. Raises ``StartError``."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--no-cache-dir", "--target", str(folder), kind, PACKAGE]
    command.append(f"{PACKAGE}=={version(PACKAGE)}")
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=BUILD_S, check=False
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise StartError(
            f"{PACKAGE} could not be installed ({reason}): this experiment needs the package index and a C compiler "
            "with the Python headers (Debian: apt install gcc python3-dev)"
        )
    return folder
