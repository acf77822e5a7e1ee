"""Make, compile and run a client in each language; each program signs in, and prints what it was told."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
DOCUMENT = HERE.parents[1] / "ironauth" / "openapi.json"
TYPESCRIPT = HERE.parent / "typescript" / "node_modules"
PATIENCE_S = 300  # for one step, on a machine with everything else to do
#: No second compiler of Java's: each of its programs here runs for seconds.
JAVA = ("java", "-XX:TieredStopAtLevel=1")
#: What openapi-generator leaves out: its own tests and pages. Form models are needed: sign-in takes JSON and forms.
_ONLY_CODE = "apiTests=false,modelTests=false,apiDocs=false,modelDocs=false,skipFormModel=false"


def _missing(what: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(f"CI: every test must run, install {what}")
    pytest.skip(f"not installed: {what}")


def generators() -> Path:
    """Return the folder of the generators; without them skip, or in CI fail."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = cache / "ironauth-tests" / "generators"
    if not (found / "known").exists():
        _missing("generators of clients: sh .ci/find-generators does it, or says what is missing")
    return found


def run(*command: str | Path, folder: Path = HERE, environment: Mapping[str, str] | None = None) -> str:
    """Run a program; return what it printed.

    Args:
        *command: The program and its arguments.
        folder: Where it runs.
        environment: Further variables.

    Returns:
        Its output.
    """
    done = subprocess.run(
        [*map(str, command)], cwd=folder, env={**os.environ, **(environment or {})}, timeout=PATIENCE_S,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-6_000:]
    return done.stdout


def _generate(language: str, folder: Path, *options: str) -> None:
    """Have openapi-generator make a client."""
    jar = next(generators().glob("openapi-generator-cli-*.jar"))
    given: tuple[str | Path, ...] = (
        "generate",
        "-i",
        DOCUMENT,
        "-g",
        language,
        "-o",
        folder,
        "--global-property",
        _ONLY_CODE,
        *options,
    )
    run(*JAVA, "-jar", jar, *given)


def python(folder: Path) -> Sequence[str | Path]:
    """Make the client of openapi-python-client; return the command that runs its program.

    Args:
        folder: Where it is made.
    """
    programs = generators() / "python" / "bin"
    path = {"PATH": f"{programs}:{os.environ['PATH']}"}  # it formats what it makes with its own ruff
    options = ("--path", DOCUMENT, "--meta", "none", "--fail-on-warning")
    command = (programs / "openapi-python-client", "generate", *options)
    run(*command, "--output-path", folder / "ironauth_generated", folder=folder, environment=path)
    return ("env", f"PYTHONPATH={folder}", programs / "python", "-W", "error", HERE / "python" / "sign_in.py")


def go(folder: Path) -> Sequence[str | Path]:
    """Make openapi-generator's client for Go, and compile its program; return the command that runs it.

    Args:
        folder: Where it is made.
    """
    compiler = shutil.which("go")
    if compiler is None:
        pytest.skip("Go is not installed: its client was not tried (https://go.dev/dl/)")
    _generate("go", folder / "made", "--additional-properties", "packageName=ironauth,withGoMod=false")
    shutil.copytree(HERE / "go", folder, dirs_exist_ok=True)
    (folder / "ironauth").mkdir()
    for file in (folder / "made").glob("*.go"):
        file.rename(folder / "ironauth" / file.name)
    environment = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -buildvcs=false", "CGO_ENABLED": "0"}
    run(compiler, "build", "-trimpath", "-o", "program", ".", folder=folder, environment=environment)
    return (folder / "program",)


def java(folder: Path) -> Sequence[str | Path]:
    """Make openapi-generator's client for Java, and compile its program; return the command that runs it.

    A value that is text, a number or a list is a plain object there: the generator writes no valid class for it.

    Args:
        folder: Where it is made.
    """
    packages = "invokerPackage=org.ironauth,apiPackage=org.ironauth.api,modelPackage=org.ironauth.model"
    plain = "openApiNullable=false,supportUrlQuery=false,annotationLibrary=none,library=native"
    mapped = ("--schema-mappings", "AuditEventOut_details_value=Object,Introspection_aud=Object")
    _generate("java", folder / "made", "--additional-properties", f"{packages},{plain}", *mapped)
    # The generator is a program with Jackson in it, which its client needs.
    classes = ":".join(map(str, [folder / "classes", *generators().glob("*.jar")]))
    sources = [*(folder / "made" / "src" / "main").rglob("*.java"), *(HERE / "java").rglob("*.java")]
    run("javac", "-nowarn", "-proc:none", "-cp", classes, "-d", folder / "classes", *sources)
    return (*JAVA, "-cp", classes, "SignIn")


def typescript(folder: Path) -> Sequence[str | Path]:
    """Make the types of openapi-typescript, and compile a program with them; return the command that runs it.

    Args:
        folder: Where it is made.
    """
    if not (TYPESCRIPT / ".installed-package-lock.json").exists():
        _missing("what TypeScript is compiled with: sh .ci/find-node does it, or says what is missing")
    programs = TYPESCRIPT / ".bin"
    shutil.copytree(HERE / "typescript", folder, dirs_exist_ok=True)
    run(programs / "openapi-typescript", DOCUMENT, "--output", folder / "api.ts")
    (folder / "package.json").write_text(json.dumps({"type": "module"}))
    run(programs / "tsc", "--project", folder)
    return ("node", folder / "dist" / "sign_in.js")
