"""Somebody comes from another system with an authenticator app of 80 bits, and signs in with its codes."""

import base64
import json
from pathlib import Path

import httpx
import pytest
from asgiref.sync import sync_to_async
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from django.core.management import call_command

from accounts.passwords import hashing
from conftest import PASSWORD
from tokens.oauth.tests.walk import is_page, send
from tokens.tests.browser import Member
from tokens.tests.second_factor import password_only, said, with_code

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("signing_key", "still_clock")]

SECRET = "JBSWY3DPEHPK3PXP"
SIGNIN, CODE = "/oauth/signin", "/oauth/signin/code"


@pytest.fixture
async def moved(transactional_db: None, tmp_path: Path) -> Member:
    """Somebody who was imported with password and app."""
    path = tmp_path / "people.jsonl"
    person = {"external_id": "1", "email": "bob@example.com", "email_verified": True, "totp_secret": SECRET}
    path.write_text(json.dumps(person | {"password_hash": await hashing.hash_password(PASSWORD)}))
    await sync_to_async(call_command)("import_users", str(path), "--from", "jsonl")
    return {"email": "bob@example.com", "password": PASSWORD}


def codes(now: float) -> tuple[str, str]:
    """Return the code that the app shows, and one that it does not show around now."""
    app = TOTP(base64.b32decode(SECRET), 6, SHA1(), 30, enforce_key_length=False)  # noqa: S303 - RFC 6238
    near = {app.generate(int(now) + 30 * step).decode() for step in (-1, 0, 1)}
    wrong = next(code for code in (f"{number:06}" for number in range(4)) if code not in near)
    return app.generate(int(now)).decode(), wrong


async def test_by_api(api: httpx.AsyncClient, moved: Member, still_clock: float) -> None:
    """A wrong code is refused as anybody's, the right one signs in, once."""
    right, wrong = codes(still_clock)
    asked = await password_only(api, moved)
    assert said(await with_code(api, asked["mfa_token"], wrong)) == (401, "invalid_mfa_code")
    assert (await with_code(api, asked["mfa_token"], right)).status_code == 200
    again = await password_only(api, moved)
    assert said(await with_code(api, again["mfa_token"], right)) == (401, "invalid_mfa_code")


async def test_by_page(api: httpx.AsyncClient, moved: Member, still_clock: float) -> None:
    """The page says that a code is wrong, and goes on with the right one."""
    right, wrong = codes(still_clock)
    page = await send(api, await api.get("/account/signin"), SIGNIN, email=moved["email"], password=PASSWORD)
    page = await send(api, page, CODE, code=wrong)
    assert is_page(page, 401, "The code is wrong")
    assert (await send(api, page, CODE, code=right)).status_code in (302, 303)
