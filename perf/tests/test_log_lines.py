"""Log lines that reports quote."""

import json

import pytest

from perf.rig.log_lines import LONGEST, quoted, without_paths

_TRACEBACK = (
    'Traceback (most recent call last):\n  File "/srv/copy/.venv/lib/site-packages/redis/retry.py", line 69\n'
    "    return await do()\n"
    "redis.exceptions.ConnectionError: Error 111 connecting, see /srv/copy/redis.conf.\n"
)


def _line(**fields: str) -> str:
    return json.dumps({"timestamp": "2026-11-28T09:33:02.512Z", "level": "error", **fields})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (_line(event="channel_failed", exception=_TRACEBACK),
         "error: channel_failed: redis.exceptions.ConnectionError: Error 111 connecting, see redis.conf."),
        (_line(event="database_unavailable", cause="connection refused", path="/srv/copy/db"),
         "error: database_unavailable: connection refused"),
        (_line(event="stopped"), "error: stopped"),
        ("cannot open /srv/copy/var/db.sqlite3\n", "cannot open db.sqlite3"),
        ("[1, 2]", "[1, 2]"),
    ],
)  # fmt: skip
def test_a_quoted_line_says_what_and_why(line: str, said: str) -> None:
    """Level, event and the last line of the reason are kept; traceback, other fields and paths are not."""
    assert quoted(line) == said


@pytest.mark.parametrize("line", [_line(event="failed", exception="E: " + "x" * 300), "x" * 300])
def test_a_quoted_line_is_short(line: str) -> None:
    """A reason has at most 200 characters."""
    assert len(quoted(line)) <= len("error: failed: ") + LONGEST


@pytest.mark.parametrize(
    "text", ["GET https://id.example.com/oauth/token", "1/2 s", "redis://10.0.0.1:6379/0", "and/or"]
)
def test_an_address_is_no_path(text: str) -> None:
    """What has a slash and is no file of the machine stays."""
    assert without_paths(text) == text
