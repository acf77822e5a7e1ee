"""Ask whether the pins of ``requirements/*.txt`` have known holes, and never call silence good news.

pip-audit (in ``.venv-audit``) does the asking. By itself it ends with "No known vulnerabilities found" and status 0
where its source answers 404 to everything, and with 1 both for a hole and for a source out of reach. Here

- 0 is: each pin was looked up, and none has a known hole;
- 1 is: at least one has;
- 2 is: no hole was found, but not everything could be looked up. That is no result.

``make audit`` itself ends with 2 on either, as make does: who tells them apart runs ``python -m requirements.audit``.

Further arguments go to pip-audit: ``--vulnerability-service osv``, ``--ignore-vuln ID``, ``--timeout 60``.
"""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from requirements.pins import FOLDER, pins, without_markers

CLEAN, FOUND, NO_DATA = 0, 1, 2
AUDITOR = [sys.executable, "-m", "pip_audit"]
#: It has holes that everybody knows, CVE-2019-19844 among them: a source that names none of them has no data.
PROBE = "django==3.0\n"

type Answer = dict[str, Any]


class NoDataError(Exception):
    """The source of what is known could not be asked; the message is the last that was said about it."""


def ask(auditor: list[str], requirements: str, options: list[str]) -> list[Answer]:
    """Return what pip-audit says of each package. Raises NoDataError where it ends without an answer."""
    with TemporaryDirectory() as folder:
        source, answer = Path(folder, "requirements.txt"), Path(folder, "answer.json")
        source.write_text(requirements, encoding="utf-8")
        command = [*auditor, "--requirement", str(source), "--no-deps", "--disable-pip", "--progress-spinner", "off"]
        ended = subprocess.run(  # noqa: S603 - no shell, and the options are those of anybody who started this
            [*command, "--format", "json", "--output", str(answer), *options],
            check=False,
            capture_output=True,
            text=True,
        )
        try:
            found: list[Answer] = json.loads(answer.read_text(encoding="utf-8"))["dependencies"]
        except (OSError, ValueError, KeyError) as error:
            said = ended.stderr.strip().splitlines() or [f"pip-audit ended with status {ended.returncode}"]
            raise NoDataError(said[-1]) from error
    return found


def judge(name: str, pinned: list[tuple[str, str]], answers: list[Answer]) -> tuple[list[str], list[str]]:
    """Return a line for every known hole in the file of that name, and one for every pin that was not looked up."""
    told = {(each["name"], each["version"]): each["vulns"] for each in answers if "vulns" in each}
    reasons = {each["name"]: each["skip_reason"] for each in answers if "skip_reason" in each}
    holes = [
        f"{name}: {package} {version}: {hole['id']}, mended in {', '.join(hole['fix_versions']) or 'no version yet'}"
        for (package, version), found in told.items()
        for hole in found
    ]
    missing = [
        f"{name}: {package} {version}: {reasons.get(package, 'pip-audit left it out')}"
        for package, version in pinned
        if (package, version) not in told
    ]
    return holes, missing


def audit(auditor: list[str], files: list[Path], options: list[str]) -> tuple[list[str], list[str]]:
    """Return the lines about holes, and about what could not be looked up, of all the files."""
    holes: list[str] = []
    missing: list[str] = []
    try:
        if not any(each.get("vulns") for each in ask(auditor, PROBE, options)):
            return [], [f"the source knows of no hole in {PROBE.strip()}, which has many: it has no data"]
        for file in files:
            text = file.read_text(encoding="utf-8")
            its_holes, its_missing = judge(file.name, pins(text), ask(auditor, without_markers(text), options))
            holes += its_holes
            missing += its_missing
    except NoDataError as error:
        missing.append(str(error))
    return holes, missing


def main(options: list[str], auditor: list[str] | None = None, folder: Path = FOLDER) -> int:
    """Audit every ``*.txt`` of the folder, print what came of it, and return the exit status."""
    files = sorted(folder.glob("*.txt"))
    holes, missing = audit(auditor or AUDITOR, files, options)
    for line in holes:
        sys.stdout.write(f"HOLE  {line}\n")
    for line in missing:
        sys.stderr.write(f"NOT LOOKED UP  {line}\n")
    if holes:
        sys.stdout.write(f"{len(holes)} known holes: raise the pins (make requirements ARGS=--upgrade)\n")
        return FOUND
    if missing:
        sys.stderr.write("NO RESULT: is the source in reach (https://pypi.org/pypi, or --vulnerability-service osv)?\n")
        return NO_DATA
    sys.stdout.write(f"No known holes in {', '.join(file.name for file in files)}\n")
    return CLEAN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
