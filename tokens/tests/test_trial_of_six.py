"""Six people cannot sign in, for six causes: each is sent the same few words, and staff are told which it is."""

from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.audit import recording as audit
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.ratelimit.lockout import FREE_FAILURES
from tokens.tests.browser import SIGNIN
from tokens.tests.second_factor import enrol, password_only, with_code

pytestmark = [pytest.mark.django_db(transaction=True)]

USERS = "/api/v1/users"
SIX = ("deactivated", "unconfirmed", "leaving", "forgetful", "guessed", "codeless")


async def person(email: str, **fields: Any) -> User:
    """Make somebody who can sign in, unless told otherwise."""
    fields = {"email_verified_at": clock.now()} | fields
    return await sync_to_async(User.objects.create_user)(email, PASSWORD, **fields)


async def sign_in(api: httpx.AsyncClient, user: User, password: str = PASSWORD) -> httpx.Response:
    """Try."""
    return await api.post(SIGNIN, json={"email": user.email, "password": password})


@pytest.mark.usefixtures("signing_key", "throttled", "still_clock")
async def test_a_trial_of_six(api: httpx.AsyncClient, settings: Settings) -> None:
    """Each has the right password and stays out; the verdict names the cause, and the one who can is told apart."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    boss = await person("boss@example.com", is_superuser=True, is_staff=True)
    staff = bearer((await sign_in(api, boss)).json())
    people = {name: await person(f"{name}@example.com") for name in SIX}
    fine = await person("fine@example.com")
    pair = (await sign_in(api, people["codeless"])).json()
    app, _ = await enrol(api, pair)
    page = f"{USERS}/{people['deactivated'].pk}"
    assert (await api.patch(page, json={"is_active": False}, headers=staff)).status_code == 200
    await User.objects.filter(pk=people["unconfirmed"].pk).aupdate(email_verified_at=None)
    leaving = bearer((await sign_in(api, people["leaving"])).json())
    gone = await api.request("DELETE", "/api/v1/access/me", json={"password": PASSWORD}, headers=leaving)
    assert gone.status_code in (202, 204), gone.text
    await User.objects.filter(pk=people["forgetful"].pk).aupdate(must_change_password=True)
    for _ in range(FREE_FAILURES):
        assert (await sign_in(api, people["guessed"], "wrong")).status_code == 401
    codeless = {"email": people["codeless"].email, "password": PASSWORD}
    asked: dict[str, Any] = await password_only(api, codeless)
    for number in range(FREE_FAILURES):
        if number % 4 == 3:
            asked = await password_only(api, codeless)
        assert (await with_code(api, asked["mfa_token"], app.wrong())).status_code == 401
    assert await sync_to_async(audit.wait_until_written)()

    assert (await sign_in(api, fine)).status_code == 200
    for name, user in people.items():
        if name != "codeless":
            assert (await sign_in(api, user)).status_code in (401, 403, 429), name
    asked = await password_only(api, codeless)
    assert (await with_code(api, asked["mfa_token"], app.code())).status_code == 429

    told = {
        name: (await api.get(f"{USERS}/{user.pk}/verdict", headers=staff)).json()
        for name, user in {**people, "fine": fine}.items()
    }
    assert {name: verdict["code"] for name, verdict in told.items()} == {
        "deactivated": "deactivated", "unconfirmed": "address_not_confirmed", "leaving": "being_deleted",
        "forgetful": "must_change_password", "guessed": "must_wait", "codeless": "second_factor_must_wait",
        "fine": "can_sign_in",
    }  # fmt: skip
    words = {name: verdict["words"] for name, verdict in told.items()}
    assert words["deactivated"] == f"Cannot sign in: deactivated by {boss.email} on {clock.now():%Y-%m-%d}."
    assert "not confirmed" in words["unconfirmed"]
    assert "being deleted, for good on" in words["leaving"]
    assert "has to choose another password" in words["forgetful"]
    assert f": {FREE_FAILURES} wrong passwords. " in words["guessed"]
    assert f": {FREE_FAILURES} wrong codes of the second factor. " in words["codeless"]
    assert len(set(words.values())) == 7
