"""What the log says of a database that cannot be reached, and how often."""

import sqlite3
import time

import pytest
from django.db import OperationalError
from structlog.testing import capture_logs

from ironauth.infrastructure.db.faults import QUIET_S, REMEDY, Fault, Outages, classify


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (sqlite3.SQLITE_CANTOPEN, Fault.UNREACHABLE),
        (sqlite3.SQLITE_CANTOPEN_ISDIR, Fault.UNREACHABLE),
        (sqlite3.SQLITE_BUSY, Fault.BUSY),
        (sqlite3.SQLITE_FULL, Fault.BUSY),
        (sqlite3.SQLITE_CORRUPT, Fault.OTHER),
    ],
)
def test_a_file_that_cannot_be_opened_is_not_busy(code: int, fault: Fault) -> None:
    """Waiting helps against a lock, not against a folder that is missing."""
    error = OperationalError("x")
    error.__cause__ = sqlite3.OperationalError("x")
    error.__cause__.sqlite_errorcode = code
    assert classify(error, reader=True) is classify(error, reader=False) is fault


def test_unreachable_is_said_once_a_minute_with_the_remedy_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those in between are counted in the next line."""
    now = 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    outages = Outages()
    with capture_logs() as logged:
        for passed in (0.0, 0.2, QUIET_S - 0.3, 0.1):  # the last one is a full pause after the first
            now += passed
            outages.report(Fault.UNREACHABLE, cause="unable to open database file")
    assert [(event["log_level"], event["repeated"]) for event in logged] == [("error", 0), ("error", 2)]
    assert [key for key in logged[0] if key not in ("event", "log_level")][-1] == "remedy"
    assert logged[0]["remedy"] == REMEDY


def test_what_passes_by_itself_is_said_each_time() -> None:
    """As before: the fault, or the lane that met it."""
    outages = Outages()
    with capture_logs() as logged:
        outages.report(Fault.BUSY, cause="database is locked")
        outages.report(Fault.BUSY, cause="database is locked", lane="admin")
    assert [(event["event"], event["fault"]) for event in logged] == [
        ("database_unavailable", "busy"),
        ("database_unavailable", "admin"),
    ]
