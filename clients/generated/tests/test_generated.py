"""Clients that others' generators make of the document compile, and sign in at a live server."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from conftest import PASSWORD, ServeProcess
from generated.tests import making

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.only_sqlite]
Make = Callable[[Path], Sequence[str | Path]]


@pytest.fixture
def person(serve_process: ServeProcess, signing_key: str) -> tuple[str, dict[str, Any]]:
    """A live server, and somebody who has signed up there."""
    base = serve_process()
    body = {"email": "generated@example.com", "password": PASSWORD}
    made = httpx.post(f"{base}/api/v1/access/signup", json=body, timeout=30)
    assert made.status_code == 201, made.text
    return base, made.json()


@pytest.mark.parametrize("make", [making.python, making.typescript, making.go, making.java])
def test_a_generated_client_signs_in(make: Make, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """It is made without a warning of its compiler, is refused with a typed problem, signs in, and reads who it is."""
    folder = tmp_path / "client"
    folder.mkdir()
    command = make(folder)
    base, known = request.getfixturevalue("person")  # last: a server need not wait for compilers
    said = json.loads(making.run(*command, base, known["email"], PASSWORD))
    assert said == {"refused": "invalid_credentials", "email": known["email"], "id": known["id"]}
