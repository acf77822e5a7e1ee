"""What vouches for the requirements: the list of licences, and an audit that never calls silence good news."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from requirements import audit, licences, sbom
from requirements.pins import FOLDER, pins, without_markers

ROOT = Path(settings.BASE_DIR)
PINNED = """\
# A comment.
django==6.1.3 \\
    --hash=sha256:aa
tzdata==2026.6 ; sys_platform == 'win32' \\
    --hash=sha256:bb
"""
#: Stands in for pip-audit: answers by the file beside it, or ends without an answer where there is none.
AUDITOR = """
import json, pathlib, re, sys
asked = pathlib.Path(sys.argv[sys.argv.index("--requirement") + 1]).read_text()
known = pathlib.Path(__file__).with_name("known.json")
if not known.exists():
    sys.exit("Could not connect to the source")
known = json.loads(known.read_text())
answers = []
for name, version in re.findall(r"^(\\S+)==(\\S+)(?: \\\\)?$", asked, re.MULTILINE):
    said = known.get(f"{name}=={version}", [])
    answers.append({"name": name, "skip_reason": said} if isinstance(said, str)
                   else {"name": name, "version": version, "vulns": [{"id": i, "fix_versions": []} for i in said]})
pathlib.Path(sys.argv[sys.argv.index("--output") + 1]).write_text(json.dumps({"dependencies": answers}))
sys.exit(any(isinstance(each, list) and each for each in known.values()))
"""
SEES = {"django==3.0": ["CVE-2019-19844"]}


@pytest.fixture
def auditor(tmp_path: Path) -> list[str]:
    """The stand-in's command, beside one file of requirements."""
    (tmp_path / "base.txt").write_text(PINNED)
    (tmp_path / "auditor.py").write_text(AUDITOR)
    return [sys.executable, str(tmp_path / "auditor.py")]


@pytest.mark.parametrize(
    ("known", "status", "said"),
    [
        (SEES, audit.CLEAN, "No known holes in base.txt"),
        (SEES | {"django==6.1.3": ["CVE-1"]}, audit.FOUND, "base.txt: django 6.1.3: CVE-1"),
        (SEES | {"tzdata==2026.6": ["CVE-2"]}, audit.FOUND, "base.txt: tzdata 2026.6: CVE-2"),
        (None, audit.NO_DATA, "Could not connect to the source"),
        ({}, audit.NO_DATA, "it has no data"),
        ({"django==3.0": "not found"}, audit.NO_DATA, "it has no data"),
        (SEES | {"tzdata==2026.6": "not found"}, audit.NO_DATA, "base.txt: tzdata 2026.6: not found"),
        (SEES | {"django==6.1.3": ["CVE-1"], "tzdata==2026.6": "not found"}, audit.FOUND, "tzdata 2026.6: not found"),
    ],
    ids=["clean", "hole", "hole-elsewhere", "unreachable", "blind", "skips-all", "skips-one", "hole-and-skip"],
)
def test_an_audit_tells_clean_found_and_no_data_apart(
    auditor: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    known: dict[str, object] | None,
    status: int,
    said: str,
) -> None:
    """Only what was looked up is called clean, a hole counts more than a gap, and pins of every platform are asked."""
    if known is not None:
        (tmp_path / "known.json").write_text(json.dumps(known))
    assert audit.main([], auditor, tmp_path) == status
    assert said in "".join(capsys.readouterr())


def test_a_pin_that_the_auditor_leaves_out_is_not_called_clean() -> None:
    """Each pin needs an answer of its own version."""
    pinned = [("django", "6.1.3"), ("tzdata", "2026.6")]
    answers = [
        {"name": "django", "version": "6.1.3", "vulns": []},
        {"name": "tzdata", "version": "2026.5", "vulns": []},
    ]
    assert audit.judge("base.txt", pinned, answers) == ([], ["base.txt: tzdata 2026.6: pip-audit left it out"])


def test_pins_are_read_whatever_their_platform() -> None:
    """Markers hide no pin, and taking them off leaves name, version and hashes."""
    assert pins(PINNED) == [("django", "6.1.3"), ("tzdata", "2026.6")]
    assert "sys_platform" not in without_markers(PINNED)
    assert [line for line in without_markers(PINNED).splitlines() if "hash" in line] == [
        line for line in PINNED.splitlines() if "hash" in line
    ]


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.txt")), ids=lambda file: file.name)
def test_every_requirement_is_pinned_with_hashes(file: Path) -> None:
    """No line asks for anything but one version of a package, followed by its hashes."""
    text = file.read_text(encoding="utf-8")
    starts = re.findall(r"^[^\s#].*(?:\n    --hash=sha256:[0-9a-f]{64}(?: \\)?)*", text, re.MULTILINE)
    assert len(starts) == len(pins(text)) > 0
    assert [start for start in starts if "--hash=" not in start] == []


@pytest.mark.parametrize(
    ("name", "expression", "allowed"),
    [
        ("django", "BSD-3-Clause", True),
        ("django", "GPL-3.0-only OR MIT", True),
        ("django", "GPL-3.0-only AND MIT", False),
        ("django", "MIT AND Apache-2.0", True),
        ("django", "Apache-2.0 WITH LLVM-exception", False),
        ("django", "LGPL-3.0-only", False),
        ("psycopg", "LGPL-3.0-only", True),
        ("psycopg", "GPL-3.0-only", False),
        ("django", "", False),
    ],
)
def test_licences_are_allowed_by_name(name: str, expression: str, *, allowed: bool) -> None:
    """One alternative of allowed parts is enough; everything else is an exception of one package, for one licence."""
    assert licences.is_allowed(name, expression) is allowed


def test_a_licence_in_words_is_read_once_by_a_person() -> None:
    """Words compared with the licence file stand for their expression; others, or changed ones, stop the list."""
    assert licences.licence("x", {"License-Expression": "MIT-0", "License": "BSD"}, []) == "MIT-0"
    assert licences.licence("x", {"License": "MIT"}, []) == "MIT"
    assert licences.licence("pyasn1-modules", {"License": "BSD"}, []) == "BSD-2-Clause"
    assert licences.licence("segno", {}, ["License :: OSI Approved :: BSD License"]) == "BSD-3-Clause"
    for name, words in (("x", "BSD"), ("pyasn1-modules", "Business"), ("x", "")):
        with pytest.raises(licences.UnknownLicenceError, match=f"{name} says '{words}'"):
            licences.licence(name, {"License": words}, [])


def test_a_package_of_another_platform_keeps_its_line() -> None:
    """What is not installed here is not looked up: its line stays for the same version, and is missed for another."""
    line = "| nowhere | 1.0 | MIT | https://example.com |"
    assert line in licences.document([("nowhere", "1.0")], line)
    with pytest.raises(licences.UnknownLicenceError, match=r"nowhere 1\.1 is not installed"):
        licences.document([("nowhere", "1.1")], line)


def test_the_list_of_licences_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A list that is true passes the check, one with another version fails it and is mended by writing."""
    copy = tmp_path / "LICENCES.md"
    copy.write_text(licences.LIST.read_text(encoding="utf-8"), encoding="utf-8")
    assert licences.main(["--check"], copy) == 0
    version = dict(pins((FOLDER / "base.txt").read_text(encoding="utf-8")))["django"]
    copy.write_text(
        copy.read_text(encoding="utf-8").replace(f"| django | {version} |", "| django | 0.1 |"), encoding="utf-8"
    )
    assert licences.main(["--check"], copy) == 1
    assert "run make licences" in capsys.readouterr().err
    assert licences.main([], copy) == 0
    assert copy.read_text(encoding="utf-8") == licences.LIST.read_text(encoding="utf-8")


def test_no_exception_outlives_its_package() -> None:
    """Anybody who is excepted, or was read, is still among the runtime requirements."""
    pinned = {name for file in licences.FILES for name, _ in pins(file.read_text(encoding="utf-8"))}
    assert {*licences.EXCEPTIONS, *licences.READ} <= pinned


def test_the_bill_of_materials_has_licences_and_what_the_product_asks_for() -> None:
    """Each component gets the licence of its version, the product its direct requirements, and a gap is an error."""
    listed = licences.LIST.read_text(encoding="utf-8")
    names = sbom.direct((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pinned = pins((FOLDER / "base.txt").read_text(encoding="utf-8"))
    assert names < dict(pinned).keys()
    components = [{"name": name, "version": version, "bom-ref": name} for name, version in pinned]
    bare = {"metadata": {"component": {"bom-ref": "root"}}, "components": components, "dependencies": [{"ref": "root"}]}
    bill = sbom.complete(bare, listed, names)
    assert {each["name"]: each["licenses"][0]["expression"] for each in bill["components"]}[
        "psycopg"
    ] == "LGPL-3.0-only"
    assert bill["dependencies"] == [{"ref": "root", "dependsOn": sorted(names)}]
    more = sbom.direct((ROOT / "pyproject.toml").read_text(encoding="utf-8"), "otel") - names
    assert more == {"opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"}
    version = dict(pins((FOLDER / "otel.txt").read_text(encoding="utf-8")))["opentelemetry-sdk"]
    components.append({"name": "opentelemetry-sdk", "version": version, "bom-ref": "opentelemetry-sdk"})
    bill = sbom.complete(bare, listed, names | more)
    assert bill["components"][-1]["licenses"][0]["expression"] == "Apache-2.0"
    assert "opentelemetry-sdk" in bill["dependencies"][-1]["dependsOn"]
    components[-1]["version"] = "1"
    with pytest.raises(KeyError, match="opentelemetry-sdk"):
        sbom.complete(bare, listed, names)
    del components[-1]
    components[0]["version"] = "0"
    with pytest.raises(KeyError, match=pinned[0][0]):
        sbom.complete(bare, listed, names)


def test_the_repository_holds_no_links() -> None:
    """A symbolic link is what one machine has: .venv would point into the air on every other one."""
    listed = subprocess.run(["git", "ls-files", "--stage"], cwd=ROOT, check=True, capture_output=True, text=True)
    assert [line for line in listed.stdout.splitlines() if line.startswith("120000")] == []
