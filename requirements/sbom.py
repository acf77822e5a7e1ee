"""Write the bill of materials (CycloneDX 1.6, JSON) of the runtime requirements: versions, hashes, licences.

cyclonedx-bom (in ``.venv-audit``) lists the pins with their hashes below the product; the licences are added from
``deploy/LICENCES.md``, and what the product itself asks for from ``pyproject.toml``; what the pins ask of each other is
not told, as the list of pins does not know it. The arguments are the file to write and, for an image with traces,
``otel`` instead of ``base``.
``SOURCE_DATE_EPOCH`` (s) dates it: the same commit has the same bill.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from requirements.licences import LIST
from requirements.pins import FOLDER

PROJECT = FOLDER.parent / "pyproject.toml"
BASE = "base"
ROW = re.compile(r"^\| (\S+) \| (\S+) \| ([^|]+) \|", re.MULTILINE)
#: Its warning is about the dependencies of the product, which are added afterwards.
GENERATOR = [sys.executable, "-W", "ignore::UserWarning", "-m", "cyclonedx_py", "requirements"]

type Bill = dict[str, Any]


def direct(project: str, kind: str = BASE) -> set[str]:
    """Return the names that a ``pyproject.toml`` asks for, as the index spells them, without extras and bounds.

    With those of the extra that is called as ``kind``, unless that is ``base``.
    """
    said = tomllib.loads(project)["project"]
    asked = said["dependencies"] + ([] if kind == BASE else said["optional-dependencies"][kind])
    return {re.split(r"[^A-Za-z0-9._-]", each)[0].lower().replace("_", "-").replace(".", "-") for each in asked}


def complete(bill: Bill, licences: str, asked: set[str]) -> Bill:
    """Return the bill with a licence for each component, and with what the product depends on directly.

    Raises KeyError for a component that the list of licences does not have in its version.
    """
    known = {(name, version): expression for name, version, expression in ROW.findall(licences)}
    for each in bill["components"]:
        each["licenses"] = [{"expression": known[each["name"], each["version"]], "acknowledgement": "declared"}]
    root = bill["metadata"]["component"]["bom-ref"]
    below = sorted(each["bom-ref"] for each in bill["components"] if each["name"] in asked)
    others = [each for each in bill["dependencies"] if each["ref"] != root]
    return bill | {"dependencies": [*others, {"ref": root, "dependsOn": below}]}


def main(arguments: list[str]) -> int:
    """Write the bill to the file named first, of the requirements named second; return the exit status."""
    kind = arguments[1] if len(arguments) > 1 else BASE
    source = FOLDER / f"{kind}.txt"
    made = subprocess.run(  # noqa: S603 - no shell, and nothing of it comes from elsewhere
        [*GENERATOR, "--pyproject", str(PROJECT), "--output-reproducible", str(source)],
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    if made.returncode:
        return made.returncode
    try:
        licences, project = LIST.read_text(encoding="utf-8"), PROJECT.read_text(encoding="utf-8")
        bill = complete(json.loads(made.stdout), licences, direct(project, kind))
    except KeyError as missing:
        sys.stderr.write(f"{LIST.name} has no line for {missing}: run make licences\n")
        return 1
    Path(arguments[0]).write_text(json.dumps(bill, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
