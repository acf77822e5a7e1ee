"""What is published says nothing of the machine on which it was made."""

import re
import subprocess
from pathlib import Path

import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
#: Folders of somebody's working copy or packages, and what a program that failed says of its files.
MACHINE = re.compile(
    r"(?<![\w.:/-])/(?:work|root|Users|home/[a-z]\w*)/|site-packages/|\.venv/lib/|Traceback \(most recent call last\)"
)


def published() -> list[str]:
    """Return the names of the texts that people read: the pages, the records of measurements, those at the top."""
    listed = subprocess.run(
        ["git", "ls-files", "docs", "perf/results", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return [name for name in listed if (ROOT / name).suffix in {".md", ".json", ".svg", ".txt", ".csv"}]


def test_what_is_published_names_no_machine() -> None:
    """No page and no record has a path of a working copy, or a traceback."""
    found = [
        f"{name}:{number}: {line.strip()[:120]}"
        for name in published()
        if (ROOT / name).is_file()
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), start=1)
        if MACHINE.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "machine"),
    [
        ('File "/work/copy/app.py", line 3', True),
        (r"File \"/root/app.py\", line 3", True),
        ("see /home/anna/app.py", True),
        ("lib/python3.13/site-packages/redis/retry.py", True),
        ("https://example.com/work/1", False),
        ("/var/lib/ironauth", False),
        ("https://example.com/home/", False),
    ],
)
def test_what_counts_as_a_machine(text: str, machine: bool) -> None:
    """A path of a working copy or package counts; an address, and where the product is installed, do not."""
    assert (MACHINE.search(text) is not None) is machine
