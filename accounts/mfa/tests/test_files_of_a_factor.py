"""What adding a second factor touches outside its folder: the files that name a plain kind, one-time codes."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from django.conf import settings

ROOT: Final = Path(settings.BASE_DIR)
ROOM: Final = "accounts/mfa/totp/"
NAMED: Final = re.compile("totp", re.IGNORECASE)
#: Where no new kind has a part: tests, generated files, and what other systems know of people who move in.
LEFT_OUT: Final = re.compile(r"/(tests|migrations|locale)/|^accounts/(transfer|lazy_migration)/")
FILES: Final = {
    "accounts/admin/access/second_factor.py",  # staff who must have one set it up at their first sign-in
    "accounts/mfa/factors.py",
    "accounts/mfa/outputs.py",
    "accounts/mfa/urls.py",
    "accounts/models.py",
    "accounts/pages/acts.py",
    "accounts/templates/accounts/pages/account/codes.html",
    "accounts/templates/accounts/pages/account/proof.html",
    "accounts/templates/accounts/pages/account/totp_setup.html",
    "accounts/templates/admin/factors/totp.html",
    "ironauth/config/error_codes/people.py",
    "tokens/templates/tokens/oauth/second_factor.html",
}
#: Files; a kind is added in these, in its own folder, and nowhere else.
WANTED: Final = 12


def names(text: str) -> Iterator[str]:
    """Yield every name of a module, and its strings of one word: not what is written for people to read."""
    for node in ast.walk(ast.parse(text)):
        for field in ("id", "attr", "name", "arg", "module", "asname"):
            if isinstance(name := getattr(node, field, None), str):
                yield name
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not re.search(r"\s", node.value):
            yield node.value


def names_the_kind(file: str) -> bool:
    """Tell whether a file's name, or its code, has the kind in it."""
    text = (ROOT / file).read_text(encoding="utf-8")
    if file.endswith(".py"):
        return NAMED.search(text) is not None and any(map(NAMED.search, names(text)))  # few files need to be parsed
    return NAMED.search(file) is not None or re.search(r"\{[{%][^}%]*totp", text) is not None


def test_adding_a_second_factor_touches_few_files() -> None:
    """Exactly the listed files name one-time codes outside their folder, and they are twelve at most."""
    listed = subprocess.run(
        ["git", "ls-files", "accounts", "tokens", "ironauth"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    read = [
        file
        for file in listed
        if Path(file).suffix in {".py", ".html", ".js", ".txt"} and (ROOT / file).is_file()
        if not file.startswith(ROOM) and not LEFT_OUT.search(file)
    ]
    assert {file for file in read if names_the_kind(file)} == FILES
    assert len(FILES) <= WANTED
    assert names_the_kind(f"{ROOM}models.py")
    assert not names_the_kind("accounts/mfa/services.py")  # its docstring does, and nobody has to change it
