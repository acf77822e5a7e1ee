"""The first run's environment file: private, random, and never overwritten."""

import os
import stat
import subprocess
import sys
from pathlib import Path

from ironauth import environment_file
from ironauth.config.checks import key_ring, required_secret


def _values(path: Path) -> dict[str, str]:
    lines = (line for line in path.read_text().splitlines() if not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines)


def test_file_and_folder_are_private(tmp_path: Path) -> None:
    """A new file has mode 0600 in a folder of mode 0700, whatever the umask."""
    before = os.umask(0)
    try:
        assert environment_file.main([str(tmp_path / "var" / "env")]) == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "var" / "env").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "var").stat().st_mode) == 0o700


def test_secrets_are_accepted_by_the_settings(tmp_path: Path) -> None:
    """The secrets it writes pass the checks that the settings make, and DEBUG is on."""
    environment_file.create(tmp_path / "env")
    values = _values(tmp_path / "env")
    assert required_secret(values["SECRET_KEY"], "SECRET_KEY")
    assert list(key_ring([values["IRONAUTH_MASTER_KEYS"]], "IRONAUTH_MASTER_KEYS", required=True)) == ["k1"]
    assert values["DEBUG"] == "1"


def test_two_files_never_share_a_secret(tmp_path: Path) -> None:
    """Secrets are drawn for each file, not built in."""
    environment_file.create(tmp_path / "one")
    environment_file.create(tmp_path / "two")
    one, two = _values(tmp_path / "one"), _values(tmp_path / "two")
    assert one["SECRET_KEY"] != two["SECRET_KEY"]
    assert one["IRONAUTH_MASTER_KEYS"] != two["IRONAUTH_MASTER_KEYS"]


def test_existing_file_is_kept(tmp_path: Path) -> None:
    """A second run leaves the file byte for byte as it was and leaves no draft behind."""
    path = tmp_path / "env"
    assert environment_file.create(path)
    before = path.read_bytes()
    assert not environment_file.create(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_unwritable_folder_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    """Without a writable folder it fails in one line with the remedy and exits with 1, without a traceback."""
    blocker = tmp_path / "var"
    blocker.write_text("a file where the folder should be")
    result = subprocess.run(
        [sys.executable, "-m", "ironauth.environment_file", str(blocker / "env")],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(environment_file.__file__).parents[1],
    )
    assert result.returncode == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert "writable for this user" in result.stderr


def test_usage(tmp_path: Path) -> None:
    """Called without a path it says how it is called and exits with 2."""
    assert environment_file.main([]) == 2
    assert environment_file.main([str(tmp_path), "more"]) == 2


def test_only_the_standard_library_is_imported() -> None:
    """It runs in an isolated interpreter that has no site-packages."""
    result = subprocess.run(
        [sys.executable, "-S", "-c", "import ironauth.environment_file, sys; print('django' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(environment_file.__file__).parents[1],
    )
    assert result.stdout.strip() == "False"
