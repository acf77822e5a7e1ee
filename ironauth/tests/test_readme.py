"""README.md and the pages that one starts with, as their readers use them: what they show is pasted into a shell."""

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.conf import settings

from ironauth.tests.test_boot import SHOWN, start

README = "README.md"
TOUR = "docs/start/tour.md"
QUICKSTART = "docs/start/quickstart.md"
CONTAINER = "docs/operate/container.md"
BLOCK = re.compile(r"^```(sh|)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEXT = "== next block =="
NAME = re.compile(r'"(\w+)":')


def page(name: str, title: str = "") -> str:
    """Return a page's text, or what stands below a heading of it."""
    text = (Path(settings.BASE_DIR) / name).read_text(encoding="utf-8")
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0] if title else text


def tour(text: str) -> list[tuple[str, str]]:
    """Return the blocks to be pasted, each with the answer that is printed below it."""
    blocks = BLOCK.findall(text)
    assert [kind for kind, _ in blocks] == ["sh", ""] * (len(blocks) // 2)
    return [(blocks[at][1], blocks[at + 1][1]) for at in range(0, len(blocks), 2)]


def pasted(shell: str, script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``script`` as typed into ``shell``: line by line from its input, with hardly any environment."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    return subprocess.run(
        [program, "-s"],
        input=script,
        cwd=folder,
        env={"PATH": os.environ["PATH"], **environment},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.live
@pytest.mark.skipif(shutil.which("curl") is None, reason="the tour is made with curl")
@pytest.mark.parametrize(
    ("name", "title"), [(README, "A tour of five calls"), (QUICKSTART, "Get a first token"), (TOUR, "")]
)
def test_the_tour_can_be_pasted(serve_process: Callable[..., str], tmp_path: Path, name: str, title: str) -> None:
    """Every block of it, first to last in one shell on any port, gets the answers that are printed below it."""
    port = str(urlsplit(serve_process("--migrate")).port)
    steps = tour(page(name, title))
    script = "".join(f"{commands}echo '{NEXT}'\n" for commands, _ in steps)
    result = pasted("sh", script, tmp_path, PORT=port)
    assert (result.returncode, result.stderr) == (0, "")
    answers = result.stdout.split(f"{NEXT}\n")[:-1]
    assert len(answers) == len(steps)
    for answer, (commands, printed) in zip(answers, steps, strict=True):
        assert set(NAME.findall(printed)) <= set(NAME.findall(answer)), (commands, answer)
        for status in re.findall(r'^\d{3}$|"status":\d{3}', printed, re.MULTILINE):
            assert status in answer, (commands, answer)
        assert ('"status":' in answer) == ('"status":' in printed), (commands, answer)


def test_the_tour_is_made_for_the_default_port() -> None:
    """Where PORT is not set, it asks the server that a bare ``make run`` starts."""
    assert "BASE=http://localhost:${PORT:-8000}\n" in tour(page(TOUR))[0][0]


def test_the_containers_settings_are_accepted(tmp_path: Path) -> None:
    """What the example writes is private, is all a production server needs, and is never overwritten."""
    (example,) = (text for kind, text in BLOCK.findall(page(CONTAINER)) if kind == "sh")
    assert pasted("sh", example, tmp_path).stderr == ""
    file = tmp_path / "ironauth.env"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    first = file.read_text()
    values = dict(line.split("=", 1) for line in first.splitlines())
    assert values["DEBUG"] == "0"
    shown = start(["-c", SHOWN], {"IRONAUTH_ENV_FILE": os.devnull, "IRONAUTH_COOKIE_SECURE": "1", **values})
    assert shown.stdout == "False True https://id.example.com ['id.example.com']\n", shown.stderr
    again = pasted("sh", example, tmp_path)
    assert again.returncode != 0
    assert "ironauth.env" in again.stderr
    assert file.read_text() == first
    assert "/ironauth.env" in (Path(settings.BASE_DIR) / ".gitignore").read_text().splitlines()


def test_what_the_container_is_weak_without_is_said(tmp_path: Path) -> None:
    """Each line that the server starts without has a row in the table; without them nothing proves people or staff."""
    text = page(CONTAINER)
    (example,) = (block for kind, block in BLOCK.findall(text) if kind == "sh")
    pasted("sh", example, tmp_path)
    values = dict(line.split("=", 1) for line in (tmp_path / "ironauth.env").read_text().splitlines())
    optional = values.keys() - {"DEBUG", "SECRET_KEY", "IRONAUTH_MASTER_KEYS", "ALLOWED_HOSTS", "IRONAUTH_ISSUER"}
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", text.partition("| without |")[2].partition("\n\n")[0], re.MULTILINE)
    named = {name for name, _ in rows}
    assert {"IRONAUTH_PASSWORD_PEPPERS", "EMAIL_URL", "IRONAUTH_STAFF_MFA", "IRONAUTH_TRUSTED_PROXIES"} == optional
    assert all(any(name in row for row in named) for name in optional)
    assert "limits of the proxy" in named
    code = "import ironauth.settings as s; print(s.IRONAUTH_EMAIL_VERIFICATION, s.IRONAUTH_STAFF_MFA)"
    base = {"IRONAUTH_ENV_FILE": os.devnull, "IRONAUTH_COOKIE_SECURE": "1"}
    assert start(["-c", code], {**base, **values}).stdout == "required required\n"
    without = {name: value for name, value in values.items() if name not in optional}
    assert start(["-c", code], {**base, **without}).stdout == "off optional\n"


def test_the_containers_settings_are_drawn_anew(tmp_path: Path) -> None:
    """No two readers share a secret."""
    (example,) = (text for kind, text in BLOCK.findall(page(CONTAINER)) if kind == "sh")
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        pasted("sh", example, tmp_path / name)
        made.append(dict(line.split("=", 1) for line in (tmp_path / name / "ironauth.env").read_text().splitlines()))
    assert made[0].keys() == made[1].keys()
    assert all(
        made[0][name] != made[1][name] for name in ("SECRET_KEY", "IRONAUTH_MASTER_KEYS", "IRONAUTH_PASSWORD_PEPPERS")
    )
