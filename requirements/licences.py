"""Write ``deploy/LICENCES.md``, the licences of the runtime requirements, and refuse those that nobody has allowed.

``python -m requirements.licences`` writes the file, with ``--check`` it compares; both look at the packages installed
beside the interpreter, so run it by the one of ``.venv``.
"""

import re
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from requirements.pins import FOLDER, pins

#: What a server may have installed; otel.txt, where traces are wanted, has base.txt's too.
FILES = (FOLDER / "base.txt", FOLDER / "otel.txt")
LIST = FOLDER.parent / "deploy" / "LICENCES.md"
#: They ask for no more than that copyright, licence and disclaimer go along with a copy (SPDX identifiers).
ALLOWED = frozenset({"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "MIT", "MIT-0", "PSF-2.0"})
LIBRARY = (
    "used unchanged through its public interface, as a package of its own that operators can replace;"
    " needed on Postgres only"
)
#: By package: the one further licence it may have, and why.
EXCEPTIONS = {
    "certifi": ("MPL-2.0", "Mozilla's list of certificate authorities, used unchanged; needed for traces only"),
    "psycopg": ("LGPL-3.0-only", LIBRARY),
    "psycopg-binary": ("LGPL-3.0-only", LIBRARY),
}
#: By package: what its metadata say where they say it in words, and the SPDX expression of its licence files.
READ = {
    "async-property": ("MIT license", "MIT"),
    "certifi": ("MPL-2.0", "MPL-2.0"),
    "django-cachalot": ("BSD", "BSD-3-Clause"),
    "drf-spectacular-sidecar": ("BSD", "BSD-3-Clause"),
    "protobuf": ("3-Clause BSD License", "BSD-3-Clause"),
    "pyasn1-modules": ("BSD", "BSD-2-Clause"),
    "pyopenssl": ("Apache License, Version 2.0", "Apache-2.0"),
    "segno": ("BSD License", "BSD-3-Clause"),
    "sqlparse": ("BSD License", "BSD-3-Clause"),
    "uritemplate": ("BSD 3-Clause OR Apache-2.0", "BSD-3-Clause OR Apache-2.0"),
    "uvloop": ("MIT License", "MIT OR Apache-2.0"),
}
HOME_LABELS = ("homepage", "home", "repository", "source", "sourcecode", "github", "code", "documentation")
ROW = re.compile(r"^\| (\S+) \| (\S+) \| .*$", re.MULTILINE)
HEAD = """\
# Licences of the runtime requirements

What `requirements/base.txt` pins, and `otel.txt` too where traces are wanted, for every platform. Written by
`make licences` from the packages' own metadata; `make check` fails where it is out of date, and on a licence that
`requirements/licences.py` does not allow.

| package | version | licence (SPDX) | home page |
|---|---|---|---|
"""
TAIL = """
Wheels carry code of others inside, which matters to those who pass an image on; most licences of these parts lie in the
wheels (`*.dist-info/licenses`, `*.dist-info/sboms`). Among them: `psycopg-binary` has libpq, OpenSSL, Kerberos,
OpenLDAP, Cyrus SASL and, under the LGPL 2.1, libcrypt and keyutils (`psycopg_binary.libs/`); `cryptography` OpenSSL;
`uvloop` libuv; `httptools` llhttp and http-parser; `argon2-cffi-bindings` the reference Argon2; `pynacl` libsodium
(ISC); `drf-spectacular-sidecar` Swagger UI (Apache-2.0) and Redoc (MIT).
"""


class UnknownLicenceError(Exception):
    """A package whose licence cannot be told, or is not allowed; the message ends with the remedy."""


def is_allowed(name: str, expression: str) -> bool:
    """Tell whether a package may have this licence: one alternative has allowed parts only, or it is its exception."""
    if name in EXCEPTIONS and EXCEPTIONS[name][0] == expression:
        return True
    return any(ALLOWED.issuperset(choice.split(" AND ")) for choice in expression.split(" OR "))


def licence(name: str, said: "metadata.PackageMetadata | Mapping[str, str]", classifiers: list[str]) -> str:
    """Return the SPDX expression of a package.

    Raises UnknownLicenceError where its metadata say it in words that nobody has compared with its licence file.
    """
    if said.get("License-Expression"):
        return said["License-Expression"]
    words = said.get("License") or " / ".join(each.rpartition(" :: ")[2] for each in classifiers)
    if words in ALLOWED:
        return words
    expected, expression = READ.get(name, ("", ""))
    if not expression or words != expected:
        raise UnknownLicenceError(f"{name} says {words[:80]!r}: read its licence file, and say in READ which one it is")
    return expression


def home_page(said: "metadata.PackageMetadata", links: list[str]) -> str:
    """Return where a package lives: what it calls its home page, or its sources, or its documentation."""
    labelled = {}
    for link in links:
        label, _, address = link.partition(", ")
        labelled[re.sub(r"[^a-z]", "", label.lower())] = address
    return said.get("Home-page") or next((labelled[label] for label in HOME_LABELS if label in labelled), "")


def row(name: str, version: str, present: dict[tuple[str, str], str]) -> str:
    """Return a package's line, the present one where this platform or Python does without it.

    Raises UnknownLicenceError for a licence that is not allowed, and where there is neither package nor line.
    """
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        found = None
    if found is None or found.version != version:
        if (name, version) in present:
            return present[name, version]
        raise UnknownLicenceError(f"{name} {version} is not installed here: run make licences where it is")
    said = found.metadata
    classifiers = [each for each in said.get_all("Classifier") or [] if each.startswith("License :: ")]
    expression = licence(name, said, classifiers)
    if not is_allowed(name, expression):
        raise UnknownLicenceError(
            f"{name} is under {expression}: do without it, or say in requirements/licences.py why not"
        )
    return f"| {name} | {version} | {expression} | {home_page(said, said.get_all('Project-URL') or [])} |"


def document(pinned: list[tuple[str, str]], present: str) -> str:
    """Return the whole list. Raises UnknownLicenceError, naming every package that keeps it from being made."""
    rows = {(match[1], match[2]): match[0] for match in ROW.finditer(present)}
    lines, wrong = [], []
    for name, version in pinned:
        try:
            lines.append(row(name, version, rows))
        except UnknownLicenceError as problem:
            wrong.append(str(problem))
    if wrong:
        raise UnknownLicenceError("\n".join(wrong))
    reasons = [f"- `{name}` ({expression}): {why}." for name, (expression, why) in EXCEPTIONS.items()]
    listed = "\n".join(lines)
    return f"{HEAD}{listed}\n\nAllowed like the permissive ones, each for its reason:\n\n{'\n'.join(reasons)}\n{TAIL}"


def main(arguments: list[str], target: Path = LIST) -> int:
    """Write the list, or with ``--check`` compare it; return the exit status."""
    present = target.read_text(encoding="utf-8") if target.exists() else ""
    try:
        wanted = document(sorted({pin for file in FILES for pin in pins(file.read_text(encoding="utf-8"))}), present)
    except UnknownLicenceError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    if "--check" not in arguments:
        target.write_text(wanted, encoding="utf-8")
    elif wanted != present:
        sys.stderr.write(f"{target.name} does not match the requirements: run make licences\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
