"""Where the files of deploy/ are, and how a test puts its own paths and ports into them."""

import re
from pathlib import Path

from django.conf import settings

DEPLOY = Path(settings.BASE_DIR) / "deploy"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def with_changes(text: str, *changes: tuple[str, str]) -> str:
    """Return ``text`` with each of ``changes`` made wherever it applies; one that applies nowhere is an error."""
    for written, here in changes:
        assert written in text, written
        text = text.replace(written, here)
    return text


def runbook(title: str, kind: str = "sh") -> list[str]:
    """Return the blocks of that kind below a heading of docs/operate/deploy.md."""
    text = (DEPLOY.parent / "docs" / "operate" / "deploy.md").read_text(encoding="utf-8")
    section = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return [block for found, block in BLOCK.findall(section) if found == kind]


def unit(name: str) -> list[tuple[str, str]]:
    """Return the ``Name=value`` lines of a systemd unit."""
    lines = (DEPLOY / "systemd" / name).read_text(encoding="utf-8").splitlines()
    return [(key, value) for key, sign, value in (line.partition("=") for line in lines if line[:1].isalpha()) if sign]
