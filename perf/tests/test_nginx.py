"""The private nginx: its files, and its absence."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from perf.rig import nginx
from perf.rig.processes import StartError


def test_a_missing_nginx_is_named_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without nginx the command ends with what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(nginx, "_SBIN", ())
    with ExitStack() as stack, pytest.raises(StartError, match=r"apt-get install nginx"):
        nginx.start(tmp_path, stack)


def test_nothing_is_read_or_written_outside_of_its_folder(tmp_path: Path) -> None:
    """The files name no path of a real installation, and no address of IPv6."""
    folder = tmp_path / "nginx"
    places = [("unix:/run/ironauth/", f"unix:{folder}/"), ("/var/www/acme", f"{folder}/acme")]
    nginx.copy_files(folder, places)
    for file in (folder / "conf").iterdir():
        lines = [line for line in file.read_text().splitlines() if not line.lstrip().startswith("#")]
        text = "\n".join(lines).replace(str(folder), "")
        assert not [
            path for path in ("/etc/ironauth", "/etc/nginx/ironauth", "/var/", "/run/", " /tmp/") if path in text
        ]
        assert "[::]" not in text
