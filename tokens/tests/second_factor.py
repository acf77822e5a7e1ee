"""What the tests of second factors share: an app that makes codes, and the way in with one."""

import base64
import re
from typing import Any

import httpx
import pyotp

from conftest import bearer
from ironauth.infrastructure.core import clock
from tokens.tests.browser import SIGNIN, Member, Pair

MFA = "/api/v1/access/mfa"
TOTP, CONFIRM, CODES = f"{MFA}/totp", f"{MFA}/totp/confirm", f"{MFA}/recovery-codes"
SIGNIN_MFA = "/api/v1/access/signin/mfa"
STEP_UP = "/api/v1/access/step-up"


class App:
    """A phone's app: a secret, and the codes it shows."""

    def __init__(self, secret: str) -> None:
        self.secret = secret

    def code(self, steps: int = 0) -> str:
        """Return the code shown now, or so many steps later."""
        return pyotp.TOTP(self.secret).at(clock.unix(), counter_offset=steps)

    def raw(self) -> bytes:
        """Return the secret's bytes."""
        return base64.b32decode(self.secret)

    def wrong(self) -> str:
        """Return six digits that are no code of the steps around now."""
        near = {self.code(step) for step in range(-3, 4)}
        return next(code for code in (f"{number:06}" for number in range(10)) if code not in near)


async def enrol(api: httpx.AsyncClient, pair: Pair) -> tuple[App, list[str]]:
    """Set up an app by the code of the step before this one, so that this one's is still good; return both."""
    started = await api.post(TOTP, headers=bearer(pair))
    assert started.status_code == 200, started.text
    app = App(started.json()["secret"])
    confirmed = await api.post(CONFIRM, json={"code": app.code(-1)}, headers=bearer(pair))
    assert confirmed.status_code == 200, confirmed.text
    codes: list[str] = confirmed.json()["recovery_codes"]
    assert all(re.fullmatch("[0-9a-z]{4}(-[0-9a-z]{4}){3}", code) for code in codes)
    return app, codes


async def password_only(api: httpx.AsyncClient, member: Member) -> dict[str, Any]:
    """Give the password and return the problem that asks for a second factor."""
    answer = await api.post(SIGNIN, json={"email": member["email"], "password": member["password"]})
    assert answer.status_code == 401, answer.text
    assert answer.json()["code"] == "mfa_required", answer.text
    assert not answer.headers.get_list("set-cookie")
    return dict(answer.json())


async def with_code(api: httpx.AsyncClient, mfa_token: str, code: str, **more: str) -> httpx.Response:
    """Send a code."""
    return await api.post(SIGNIN_MFA, json={"mfa_token": mfa_token, "code": code, **more})


async def sign_in_fully(api: httpx.AsyncClient, member: Member, code: str) -> Pair:
    """Give password and code, and return the tokens."""
    asked = await password_only(api, member)
    answer = await with_code(api, asked["mfa_token"], code)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def said(answer: httpx.Response) -> tuple[int, str]:
    """Return status and code of a problem."""
    return answer.status_code, answer.json()["code"]
