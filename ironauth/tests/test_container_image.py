"""``deploy/Dockerfile``: what reaches the image, its user and what it starts; judged without an engine."""

import ast
import json
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path, PurePosixPath

import pytest
from django.apps import apps
from django.conf import settings
from django.core.management import get_commands, load_command_class

import requirements
from ironauth.tests.container_recipe import IgnoreFile, Stage, follow_copies, stages
from requirements import licences, pins, sbom
from requirements.pins import FOLDER

ROOT = Path(settings.BASE_DIR)
RECIPE = ROOT / "deploy" / "Dockerfile"
HOME = "/opt/ironauth"
STATE = "/var/lib/ironauth"
PYTHON = f"{HOME}/.venv/bin/python"
#: Runs ``manage.py serve`` as a container's first process, and sends it a signal where it would begin to work.
FIRST_PROCESS = """
import os, runpy, sys
import django.core.management as management
this = os.getpid()
os.getpid = lambda: 1
management.execute_from_command_line = lambda _arguments: os.kill(this, {number}) or sys.exit("signal lost")
sys.argv = ["manage.py", "serve"]
runpy.run_path("manage.py", run_name="__main__")
"""
PRODUCT = ("accounts", "ironauth", "tokens")
PRIVATE = [  # what a working copy has or may have, tracked or not, and no image
    ".git/config",
    ".venv/bin/python",
    "var/env",
    "var/ironauth.sqlite3",
    "perf/bench.py",
    "conftest.py",
    "ironauth/tests/test_health.py",
    "ironauth/infrastructure/tests/test_x.py",
    "ironauth/settings_test.py",
    "accounts/__pycache__/models.cpython-313.pyc",
    "tokens/.env",
    "deploy/env.example",
    "requirements/dev.txt",
]


def ignored() -> IgnoreFile:
    """Return the ignore file that BuildKit takes for this Dockerfile."""
    return IgnoreFile(RECIPE.with_name(f"{RECIPE.name}.dockerignore").read_text(encoding="utf-8"))


def tracked() -> list[str]:
    """Return every file of the repository that is there."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def is_test(name: str) -> bool:
    """Tell whether a file of the repository serves tests only."""
    path = PurePosixPath(name)
    return "tests" in path.parts or path.name in ("conftest.py", "settings_test.py")


@pytest.fixture(scope="module")
def built() -> list[Stage]:
    """The stages, with the files that come from the repository."""
    found = stages(RECIPE.read_text(encoding="utf-8"))
    follow_copies(found, [name for name in tracked() if not ignored().ignores(name)])
    return found


@pytest.fixture
def final(built: list[Stage]) -> Stage:
    """The stage that is shipped."""
    return built[-1]


@pytest.mark.parametrize("name", PRIVATE)
def test_the_build_does_not_see_what_is_private(name: str) -> None:
    """Secrets, the database, history, tests and the laboratory are never sent to the builder."""
    assert ignored().ignores(name)


def test_no_instruction_ships_the_laboratory(built: list[Stage]) -> None:
    """Not even a builder that takes no notice of the ignore file would put ``perf/`` or ``var/`` into the image."""
    assert not [rest for _, _, rest in built[-1].lines if re.search(r"\bperf\b", rest)]
    careless = stages(RECIPE.read_text(encoding="utf-8"))
    follow_copies(careless, [*tracked(), *PRIVATE])
    tops = {name.partition("/")[0] for name in careless[-1].files.values()}
    assert tops == {*PRODUCT, "manage.py"}


def test_the_image_holds_the_product_whole_and_nothing_else(final: Stage) -> None:
    """Every file of the three packages but tests is there, at its place: code, templates, static files, OpenAPI."""
    wanted = {
        f"{HOME}/{name}": name
        for name in tracked()
        if name == "manage.py" or (name.startswith(tuple(f"{package}/" for package in PRODUCT)) and not is_test(name))
    }
    assert final.files == wanted
    kinds = {PurePosixPath(name).suffix for name in wanted}
    assert {".py", ".html", ".css", ".js", ".svg", ".json"} <= kinds
    assert f"{HOME}/ironauth/openapi.json" in wanted


def test_every_app_of_ours_is_in_the_image(final: Stage) -> None:
    """Each installed app that lies in the repository, with its migrations, has its ``__init__.py`` in the image."""
    paths = [Path(app.path).relative_to(ROOT) for app in apps.get_app_configs() if not _is_installed(Path(app.path))]
    assert {path.parts[0] for path in paths} == set(PRODUCT)
    for path in paths:
        assert f"{HOME}/{path}/__init__.py" in final.files


def _is_installed(path: Path) -> bool:
    """Tell whether a package comes from the index."""
    return not path.is_relative_to(ROOT) or ".venv" in path.relative_to(ROOT).parts


def test_what_is_shipped_imports_nothing_that_is_not(final: Stage) -> None:
    """No module of the image imports a module of the repository which stays behind."""
    left = {_module(name) for name in tracked() if name.endswith(".py")} - {_module(n) for n in final.files.values()}
    assert "perf.lab" in left
    missing = []
    for name in final.files.values():
        if name.endswith(".py"):
            missing += [f"{name}: {module}" for module in _imported(name) if module in left]
    assert not missing


def _module(name: str) -> str:
    """Return the dotted name of a file's module."""
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(name: str) -> set[str]:
    """Return every module that a file may import, wherever in it; the code base has no relative imports."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_every_stage_has_the_python_that_we_run(built: list[Stage]) -> None:
    """The base images are of ``.python-version`` and of one Debian, so that the virtual environment fits both."""
    version = (ROOT / ".python-version").read_text().strip()
    tags = [stage.image.partition(":")[::2] for stage in built]
    assert {name for name, _ in tags} == {"python"}
    assert {tag.partition("-")[0] for _, tag in tags} == {version}
    assert len({tag.rpartition("-")[2] for _, tag in tags}) == 1
    assert tags[-1][1].split("-")[1] == "slim"


def test_the_base_images_are_public_ones_and_can_be_replaced(built: list[Stage]) -> None:
    """One argument names the image for building, another the one that is shipped; no registry is written down."""
    text = RECIPE.read_text(encoding="utf-8")
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["$BUILD_BASE", "$BUILD_BASE", "$BASE"]
    assert not [stage.image for stage in built if "/" in stage.image]


def test_what_fetches_packages_gets_the_machines_way_to_them(built: list[Stage]) -> None:
    """Each step that runs pip is given the two secrets, which are no part of a layer; the shipped stage has none."""
    secret = "--mount=type=secret,id=pip.conf,target=/etc/pip.conf --mount=type=secret,id=certificates"
    text = RECIPE.read_text(encoding="utf-8").replace("\\\n", "")
    runs = [line for line in text.splitlines() if line.startswith("RUN ")]
    fetching = [line for line in runs if re.search(r"sh requirements/(install|argon2-native)\.sh", line)]
    assert len(fetching) == 3
    assert [line for line in fetching if not line.startswith(f"RUN {secret} ")] == []
    assert [flags for name, flags, _ in built[-1].lines if name == "RUN" and flags] == []


@pytest.mark.live
def test_a_base_without_certificates_ends_the_build(final: Stage, tmp_path: Path) -> None:
    """The last step imports what was compiled, and looks for certificates in a file or a folder."""
    check = final.all("RUN")[-1].replace(".venv/bin/python", sys.executable)
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "5ed36f99.0").touch()
    (tmp_path / "none").mkdir()
    (tmp_path / "file").touch()
    places = {("file", "none"): 0, ("absent", "some"): 0, ("absent", "none"): 1, ("absent", "absent"): 1}
    for (file, folder), status in places.items():
        places_of = {"SSL_CERT_FILE": str(tmp_path / file), "SSL_CERT_DIR": str(tmp_path / folder)}
        done = subprocess.run(["sh", "-c", check], env=places_of, check=False, capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        assert ("BASE has no certificates" in done.stderr) == bool(status)


def test_packages_are_installed_with_their_hashes(built: list[Stage]) -> None:
    """The build uses the project's own scripts, which check hashes, and compiles Argon2 only when it is asked to."""
    commands = " ; ".join(built[0].all("RUN"))
    assert 'base | otel) sh requirements/install.sh "$REQUIREMENTS" ;;' in commands
    assert "REQUIREMENTS=base" in built[0].all("ARG")
    assert "pip install" not in " ; ".join(run for stage in built for run in stage.all("RUN"))
    for script in ("install.sh", "argon2-native.sh"):
        assert f"{HOME}/requirements/{script}" in built[0].files
        assert "--require-hashes" in (ROOT / "requirements" / script).read_text()
    assert {"ARGON2_NATIVE=0", "ARGON2_MARCH="} <= set(built[0].all("ARG"))


def test_the_image_has_its_bill_of_materials(built: list[Stage]) -> None:
    """Made from the same requirements in a stage of its own, which has all that takes; only the bill is shipped."""
    _, bill, final = built
    (made,) = [run for run in bill.all("RUN") if "requirements.sbom" in run]
    assert made.startswith('.venv-audit/bin/python -m requirements.sbom sbom.cdx.json "$REQUIREMENTS"')
    assert "REQUIREMENTS=base" in bill.all("ARG")
    assert "SOURCE_DATE_EPOCH" in bill.all("ARG")
    needed = {sbom.PROJECT, licences.LIST, *(FOLDER / f"{kind}.txt" for kind in ("audit", "base", "otel"))}
    needed |= {Path(str(module.__file__)) for module in (requirements, sbom, licences, pins)}
    assert {f"/bill/{file.relative_to(ROOT)}" for file in needed} <= bill.files.keys()
    shipped = [(flags, rest) for name, flags, rest in final.lines if name == "COPY" and flags.get("from") == bill.name]
    assert shipped == [({"from": "bill"}, "/bill/sbom.cdx.json /usr/share/doc/ironauth/")]


def test_argon2_is_compiled_when_an_argument_asks_for_it(built: list[Stage]) -> None:
    """The portable wheel stays unless ARGON2_NATIVE=1 or a name for gcc's ``-march`` is given; a typing error stops."""
    (choice,) = [run for run in built[0].all("RUN") if "argon2-native.sh" in run]
    script = choice.replace("sh requirements/argon2-native.sh", 'echo "compiled:$ARGON2_MARCH"')
    said = {}
    for native, march in (("0", ""), ("1", ""), ("0", "x86-64-v3"), ("1", "x86-64-v3"), ("yes", "")):
        result = subprocess.run(
            ["sh", "-c", script],
            env={"ARGON2_NATIVE": native, "ARGON2_MARCH": march},
            check=False,
            capture_output=True,
            text=True,
        )
        said[native, march] = result.stdout.strip() if result.returncode == 0 else "refused"
    assert said == {
        ("0", ""): "Argon2: not compiled",
        ("1", ""): "compiled:",
        ("0", "x86-64-v3"): "compiled:x86-64-v3",
        ("1", "x86-64-v3"): "compiled:x86-64-v3",
        ("yes", ""): "refused",
    }


def test_it_does_not_run_as_root(final: Stage) -> None:
    """The user is a fixed number, which Kubernetes asks for, and owns the volume's folder; the code stays root's."""
    user, _, group = final.last("USER").partition(":")
    assert user.isdecimal()
    assert int(user) > 0
    commands = " ; ".join(final.all("RUN"))
    assert f"--uid {user} --gid {group} " in commands
    assert f"install -d -o {user} -g {group} -m 0700 {STATE}" in commands
    assert not [flags for name, flags, _ in final.lines if name == "COPY" and "chown" in flags]


def test_all_that_is_written_is_in_one_volume(final: Stage) -> None:
    """The settings' folder for the database, ``var``, leads into the only volume."""
    assert json.loads(final.last("VOLUME")) == [STATE]
    assert any(f"ln -s {STATE} var" in run for run in final.all("RUN"))
    assert final.last("WORKDIR") == HOME


def test_the_command_exists_and_takes_its_arguments(final: Stage) -> None:
    """Entry point and command are lists, without a shell that would keep SIGTERM, and ``serve`` knows the options."""
    entry, command = json.loads(final.last("ENTRYPOINT")), json.loads(final.last("CMD"))
    assert entry == [PYTHON, "manage.py"]
    assert f"{HOME}/manage.py" in final.files
    assert f"{HOME}/.venv .venv" in final.all("COPY")
    assert command[0] in get_commands()
    options = load_command_class("ironauth", command[0]).create_parser("manage.py", command[0]).parse_args(command[1:])
    assert (options.host, str(options.port)) == ("0.0.0.0", final.last("EXPOSE"))  # noqa: S104 - inside a container
    assert final.last("STOPSIGNAL") == "SIGTERM"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_container_that_still_starts_can_be_stopped(number: signal.Signals) -> None:
    """The first process ends itself: the kernel would ignore a signal that it left to the default action."""
    code = FIRST_PROCESS.format(number=int(number))
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True, timeout=60)
    assert result.returncode == 128 + number, result.stderr


def test_the_health_check_is_a_module_of_the_image(final: Stage) -> None:
    """It is a list too, asks ``/health``, and needs nothing but the image's own Python."""
    check = json.loads(final.last("HEALTHCHECK").removeprefix("CMD "))
    assert check == [PYTHON, "-m", "ironauth.health_probe", "/health"]
    assert f"{HOME}/ironauth/health_probe.py" in final.files


def test_huge_pages_are_asked_for_as_make_run_does(final: Stage) -> None:
    """The environment has the same tunable as the Makefile."""
    (tunable,) = re.findall(r"GLIBC_TUNABLES:-([^}]+)}", (ROOT / "Makefile").read_text())
    assert f"GLIBC_TUNABLES={tunable}" in final.last("ENV").split()


def test_pinned_packages_allow_the_python_that_we_run() -> None:
    """The version in ``.python-version`` is one that ``pyproject.toml`` allows."""
    least = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    version = (ROOT / ".python-version").read_text().strip()
    assert [int(part) for part in version.split(".")] >= [int(part) for part in least.split(".")]
