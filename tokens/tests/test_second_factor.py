"""Signing in with a second factor: nothing opens before it, each code and each token works once."""

import httpx
import pytest

from conftest import bearer
from ironauth.infrastructure import clock
from tokens.models import Session
from tokens.tests.browser import ME, Member, Pair, cookie_lines
from tokens.tests.second_factor import enrol, password_only, said, sign_in_fully, with_code

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


async def test_a_password_alone_opens_no_session(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """The answer names the methods and a token that is no credential; the code makes a session of it."""
    app, _ = await enrol(api, pair)
    sessions = await Session.objects.acount()
    asked = await password_only(api, member)
    assert asked["methods"] == ["totp", "recovery_code"]
    assert await Session.objects.acount() == sessions
    answer = await api.get(ME, headers={"Authorization": f"Bearer {asked['mfa_token']}"})
    assert answer.status_code == 401
    opened = await with_code(api, asked["mfa_token"], app.code())
    assert opened.status_code == 200
    assert opened.headers["cache-control"] == "no-store"
    assert (await api.get(ME, headers=bearer(opened.json()))).json()["email"] == member["email"]
    session = await Session.objects.aget(pk=opened.json()["session_id"])
    assert session.amr == "pwd otp mfa"


async def test_by_cookie(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """With the cookie transport the tokens, and the device, travel in cookies."""
    app, _ = await enrol(api, pair)
    asked = await password_only(api, member)
    answer = await with_code(api, asked["mfa_token"], app.code(), transport="cookie")
    assert answer.status_code == 204
    assert set(cookie_lines(answer)) == {"access_token", "refresh_token", "device"}


async def test_a_code_works_once(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """Nobody who has seen a code, or a recovery code, gets in with it."""
    app, codes = await enrol(api, pair)
    for code in (app.code(), codes[3].upper().replace("-", " ")):
        await sign_in_fully(api, member, code)
        asked = await password_only(api, member)
        assert said(await with_code(api, asked["mfa_token"], code)) == (401, "invalid_mfa_code")
    with clock.shifted(30):
        await sign_in_fully(api, member, app.code())
