"""Apache with mod_auth_openidc, as Debian has it."""

import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from tokens.oauth.tests.clients.mock_oauth2 import installed

MODULE: Final = "libapache2-mod-auth-openidc"


class Apache(NamedTuple):
    """A program, the module's version, and variables that both the program and its configuration need."""

    program: Path
    version: str
    variables: dict[str, str]


def apache() -> Apache:
    """Return it; without it skip."""
    root = installed(".ci/find-apache")
    asked = ("dpkg-query", "--show", "--showformat", "${Version}", MODULE)
    version = (
        subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        if root == Path("/")
        else (root / "version").read_text(encoding="utf-8").strip()
    )
    modules = {"MODULES": str(root / "usr" / "lib" / "apache2" / "modules")}
    libraries = ":".join(str(found) for found in (root / "usr" / "lib").glob("*-linux-*"))
    return Apache(root / "usr" / "sbin" / "apache2", version, {**modules, "LD_LIBRARY_PATH": libraries})
