"""``.ci/image``: what it says where it cannot build. It is the command itself that builds and tries the image."""

import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from ironauth.tests.container_recipe import stages
from ironauth.tests.deploy import image_trial

ROOT = Path(settings.BASE_DIR)
NEEDED = ("buildah", "unshare", "nsenter", "mount", "ip", "setpriv")
PACKAGES = ("debootstrap", "apt-get", "chroot")
CONFIG = {
    "User": "10001:10001",
    "Entrypoint": ["python", "manage.py"],
    "Cmd": ["serve"],
    "Env": ["PATH=/bin", "GLIBC_TUNABLES=a=b"],
    "WorkingDir": "/opt/ironauth",
    "Volumes": {"/var/lib/ironauth": {}},
    "StopSignal": "SIGTERM",
}


def image(folder: Path, *arguments: str, programs: tuple[str, ...] = (), user: int = 0) -> tuple[int, str]:
    """Run the command on a machine that has these programs, none of which does anything; return status and errors."""
    folder.mkdir(exist_ok=True)
    for name in ("sh", "dirname"):
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(found)
    for name, text in {"id": f"echo {user}", **dict.fromkeys(programs, "exit 1")}.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    done = subprocess.run(
        [shutil.which("sh") or "sh", str(ROOT / ".ci" / "image"), *arguments],
        env={"PATH": str(folder)}, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize("lacking", NEEDED)
def test_what_is_not_installed_is_named(tmp_path: Path, lacking: str) -> None:
    """Each program that is needed is named with its package, and nothing else is."""
    status, said = image(tmp_path, programs=tuple(name for name in NEEDED if name != lacking))
    assert status == 3
    assert f"not installed here: {lacking} (Debian: apt install --no-install-recommends buildah" in said


def test_debootstrap_is_needed_only_where_it_is_asked_for(tmp_path: Path) -> None:
    """With it the programs that make base images are needed too; without, one comes as far as the user."""
    status, said = image(tmp_path / "with", "--debootstrap", programs=NEEDED)
    assert status == 3
    assert f"not installed here: {' '.join(PACKAGES)} (" in said
    for folder, arguments in (("without", ()), ("all", ("--debootstrap",))):
        status, said = image(tmp_path / folder, *arguments, programs=(*NEEDED, *PACKAGES), user=1000)
        assert status == 3
        assert "needs root" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--push",), "unknown option --push"),
        (("--build-arg",), "--build-arg takes NAME=VALUE"),
        (("--build-arg", "BASE"), "--build-arg takes NAME=VALUE"),
    ],
)
def test_a_misspelt_option_builds_nothing(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    """An unknown option is refused before anything is looked for; a well-formed argument of the build is not."""
    assert image(tmp_path / "wrong", *arguments) == (2, f"image: {said}" + said_rest(said))
    status, errors = image(tmp_path / "right", "--build-arg", "BASE=x", programs=NEEDED, user=1000)
    assert (status, "needs root" in errors) == (3, True)


def said_rest(said: str) -> str:
    """Return how the line goes on."""
    return ": --debootstrap, --build-arg NAME=VALUE\n" if said.startswith("unknown") else "\n"


def archive(file: Path, config: Mapping[str, Any]) -> Path:
    """Write an OCI archive with a configuration and no layer."""
    blobs = {"c": {"config": config}, "m": {"config": {"digest": "sha256:c"}}}
    texts: dict[str, Any] = {f"blobs/sha256/{name}": blob for name, blob in blobs.items()}
    texts["index.json"] = {"manifests": [{"digest": "sha256:m"}]}
    with tarfile.open(file, "w") as tar:
        for name, text in texts.items():
            data = json.dumps(text).encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return file


def test_the_trial_follows_the_archive(tmp_path: Path) -> None:
    """User, command, environment and signal are those that the archive itself has."""
    read = image_trial.Image.of(archive(tmp_path / "image.tar", CONFIG))
    assert (read.user, read.group, read.volume) == ("10001", "10001", "/var/lib/ironauth")
    assert read.command == ["python", "manage.py", "serve"]
    assert read.environment == {"PATH": "/bin", "GLIBC_TUNABLES": "a=b"}
    assert read.stop_signal.name == "SIGTERM"


@pytest.mark.parametrize(
    "wrong", [{"User": ""}, {"User": "0:0"}, {"User": "10001:0"}, {"User": "ironauth"}, {"Volumes": {}}]
)
def test_the_trial_refuses_root(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """An image without a number for user and group, or with root's, is not tried at all; nor one without volume."""
    with pytest.raises(image_trial.Wrong, match="the image's"):
        image_trial.Image.of(archive(tmp_path / "image.tar", CONFIG | wrong))


def test_the_trial_finds_files_that_do_not_belong(tmp_path: Path) -> None:
    """A file that is missing in the image, and one that should have stayed outside, are both named."""
    recipe = image_trial.shipped()
    assert stages(image_trial.RECIPE.read_text(encoding="utf-8"))[-1].last("WORKDIR") == "/opt/ironauth"
    for name in recipe:
        (tmp_path / name.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name.lstrip("/")).touch()
    assert image_trial.judge_files(tmp_path, "/opt/ironauth") == len(recipe)
    (tmp_path / "opt/ironauth/accounts/.env").touch()
    with pytest.raises(image_trial.Wrong, match=r"accounts/\.env"):
        image_trial.judge_files(tmp_path, "/opt/ironauth")
    (tmp_path / "opt/ironauth/accounts/.env").unlink()
    (tmp_path / "opt/ironauth/manage.py").unlink()
    with pytest.raises(image_trial.Wrong, match=r"not in the image: \['/opt/ironauth/manage\.py'\]"):
        image_trial.judge_files(tmp_path, "/opt/ironauth")
