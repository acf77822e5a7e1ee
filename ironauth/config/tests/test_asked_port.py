"""Which port the settings are told of before they are read."""

import os

import pytest

from ironauth.config import asked_port


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(asked_port.NAME, "")  # restored whatever a test sets
    monkeypatch.delenv(asked_port.NAME)


@pytest.mark.parametrize(
    ("arguments", "port"),
    [
        ("manage.py serve --port 9000", "9000"),
        ("manage.py serve --port=1 --migrate", "1"),
        ("manage.py serve --workers 2 --port 65535", "65535"),
        ("manage.py serve --port 9000 --port 9001", "9001"),
        ("manage.py serve", None),
        ("manage.py serve --port", None),
        ("manage.py serve --port 0", None),
        ("manage.py serve --port 65536", None),
        ("manage.py serve --port x", None),
        ("manage.py serve --port ٣", None),
        ("manage.py demo --port 9000", None),
        ("manage.py", None),
    ],
)
def test_the_port_of_serve_is_told(arguments: str, port: str | None) -> None:
    """One that there is, of that command; anything else is the command's to refuse."""
    asked_port.tell(arguments.split())
    assert os.environ.get(asked_port.NAME) == port


@pytest.mark.parametrize(("port", "origin"), [(80, "http://localhost"), (81, "http://localhost:81")])
def test_an_origin_is_written_as_browsers_write_it(port: int, origin: str) -> None:
    """Without http's own port, or the issuer would be refused."""
    assert asked_port.origin(port) == origin
