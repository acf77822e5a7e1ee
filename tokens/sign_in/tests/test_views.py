"""Signing in, refreshing, signing out, verifying and changing the password over HTTP."""

from typing import Any
from uuid import UUID

import httpx
import pytest

from accounts.users import queries as user_queries
from accounts.users.models import User
from accounts.users.outputs import Account
from accounts.users.services import account_snapshot
from conftest import PASSWORD, bearer
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from tokens.errors import api_challenge
from tokens.keys.models import SigningKey
from tokens.keys.store import key_store
from tokens.keys.units import create_first_keys
from tokens.sessions.models import Session
from tokens.tests.browser import (
    CROSS_SITE,
    LOGOUT,
    LOGOUT_ALL,
    ME,
    PASSWORD_URL,
    REFRESH,
    SAME_ORIGIN,
    SIGNIN,
    VERIFY,
    Member,
    Pair,
    by_cookie,
    cookie_lines,
    me,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


# ------------------------------------------------------------------ sign-in
async def test_sign_in_by_json(api: httpx.AsyncClient, member: Member) -> None:
    """JSON is answered with a TokenPair in the contract's order, never stored, without cookies."""
    answer = await api.post(SIGNIN, json={"email": member["email"], "password": PASSWORD})
    assert answer.status_code == 200
    pair = answer.json()
    assert list(pair) == [
        "access_token", "token_type", "expires_in", "refresh_token", "refresh_expires_in", "session_id",
    ]  # fmt: skip
    assert (pair["token_type"], pair["expires_in"]) == ("Bearer", 600)
    assert pair["refresh_expires_in"] in (14 * 86_400, 14 * 86_400 - 1)  # a second may have begun meanwhile
    assert answer.headers["cache-control"] == "no-store"
    assert "set-cookie" not in answer.headers
    assert await me(api, pair) == 200


async def test_sign_in_by_form(api: httpx.AsyncClient, member: Member) -> None:
    """A form is answered with two HttpOnly cookies, the access one Lax, the refresh one Strict, and no body."""
    answer = await by_cookie(api, member)
    lines = cookie_lines(answer)
    assert set(lines) == {"access_token", "refresh_token", "device"}
    for name, samesite, max_age in (("access_token", "Lax", 600), ("refresh_token", "Strict", 14 * 86_400)):
        assert "HttpOnly" in lines[name]
        assert "Path=/;" in lines[name] + ";"
        assert f"SameSite={samesite}" in lines[name]
        # The session's end is whole seconds away from when its row was made; its cookie is made a moment later.
        assert any(f"Max-Age={seconds};" in lines[name] + ";" for seconds in (max_age, max_age - 1))
    assert answer.content == b""
    assert "content-type" not in answer.headers
    assert answer.headers["cache-control"] == "no-store"
    assert (await api.get(ME)).json()["email"] == member["email"]


async def test_secure_cookies_have_the_host_prefix(api: httpx.AsyncClient, member: Member, settings: Any) -> None:
    """With Secure cookies both names start with __Host- and both cookies are Secure."""
    settings.IRONAUTH_COOKIE_SECURE = True
    lines = cookie_lines(await by_cookie(api, member))
    assert set(lines) == {"__Host-access_token", "__Host-refresh_token", "__Host-device"}
    assert all("Secure" in line for line in lines.values())


async def test_transport_can_be_chosen(api: httpx.AsyncClient, member: Member) -> None:
    """JSON may ask for cookies and a form for a body; another transport is refused."""
    credentials = {"email": member["email"], "password": PASSWORD}
    assert (await api.post(SIGNIN, json={**credentials, "transport": "cookie"})).status_code == 204
    form = {"username": member["email"], "password": PASSWORD, "transport": "body"}
    assert (await api.post(SIGNIN, data=form)).json()["token_type"] == "Bearer"
    refused = await api.post(SIGNIN, json={**credentials, "transport": "pigeon"})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "transport")


async def test_sign_in_names_every_bad_field(api: httpx.AsyncClient, member: Member) -> None:
    """Missing fields are all reported at once."""
    by_json, by_form = await api.post(SIGNIN, json={}), await api.post(SIGNIN, data={"x": "y"})
    for answer, fields in ((by_json, {"email", "password"}), (by_form, {"username", "password"})):
        assert answer.status_code == 400
        assert answer.headers["content-type"] == "application/problem+json"
        assert {error["field"] for error in answer.json()["errors"]} == fields


async def test_a_form_with_the_names_of_json_is_told_its_own(api: httpx.AsyncClient, member: Member) -> None:
    """A form that says ``email`` hears that forms say ``username``; JSON that lacks an address does not."""
    by_form = await api.post(SIGNIN, data={"email": member["email"], "password": PASSWORD})
    by_json = await api.post(SIGNIN, json={"username": member["email"], "password": PASSWORD})
    for answer, field, told in ((by_form, "username", True), (by_json, "email", False)):
        (error,) = answer.json()["errors"]
        assert (answer.status_code, error["field"], error["code"]) == (400, field, "required")
        assert ("A form calls the address username" in error["message"]) is told


async def test_refused_sign_ins_are_the_same(api: httpx.AsyncClient, member: Member) -> None:
    """Unknown, wrong and inactive give the same bytes, apart from the request id."""
    await User.objects.filter(pk=member["id"]).aupdate(is_active=True)
    answers = [
        await api.post(SIGNIN, json={"email": "nobody@example.com", "password": PASSWORD}),
        await api.post(SIGNIN, json={"email": member["email"], "password": "not the password"}),
    ]
    user = await User.objects.aget(pk=member["id"])
    user.is_active = False
    await user.asave()
    answers.append(await api.post(SIGNIN, json={"email": member["email"], "password": PASSWORD}))
    bodies = [{k: v for k, v in answer.json().items() if k != "request_id"} for answer in answers]
    assert [answer.status_code for answer in answers] == [401, 401, 401]
    assert bodies[0] == bodies[1] == bodies[2]
    assert bodies[0]["code"] == "invalid_credentials"
    assert {answer.headers["www-authenticate"] for answer in answers} == {'Bearer realm="ironauth"'}


@pytest.mark.parametrize("transport", ["body", "cookie"])
async def test_login_csrf(api: httpx.AsyncClient, member: Member, transport: str) -> None:
    """Another site cannot sign this browser in by cookie, under an account of its choice; by body it gets nothing."""
    form = {"username": member["email"], "password": PASSWORD, "transport": transport}
    answer = await api.post(SIGNIN, data=form, headers=CROSS_SITE)
    assert answer.status_code == {"body": 200, "cookie": 403}[transport]
    assert "set-cookie" not in answer.headers
    assert (await api.post(SIGNIN, data=form, headers=SAME_ORIGIN)).status_code in {200, 204}


async def test_credentials_of_another_are_ignored_at_sign_in(api: httpx.AsyncClient, member: Member) -> None:
    """A broken or foreign credential sent along does not matter, and a session id sent along is not adopted."""
    answer = await api.post(
        SIGNIN,
        json={"email": member["email"], "password": PASSWORD, "session_id": member["id"], "sid": member["id"]},
        headers={"Authorization": "Bearer garbage", "Cookie": "access_token=x; refresh_token=y"},
    )
    assert answer.status_code == 200
    assert answer.json()["session_id"] != member["id"]


async def test_each_sign_in_is_a_new_session(api: httpx.AsyncClient, member: Member) -> None:
    """Two sign-ins are two sessions (ASVS 7.2.4)."""
    credentials = {"email": member["email"], "password": PASSWORD}
    pairs = [(await api.post(SIGNIN, json=credentials)).json() for _ in range(2)]
    assert pairs[0]["session_id"] != pairs[1]["session_id"]


# ------------------------------------------------------------------ sign-out
async def test_logout_by_access_token(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """Signing out ends this session and no other; its tokens are refused at once."""
    other = (await api.post(SIGNIN, json={"email": member["email"], "password": PASSWORD})).json()
    assert await me(api, pair) == 200
    answer = await api.post(LOGOUT, headers=bearer(pair))
    assert (answer.status_code, answer.content) == (204, b"")
    assert all("Max-Age=0" in line for line in cookie_lines(answer).values())
    assert await me(api, pair) == 401
    assert (await api.post(REFRESH, json={"refresh_token": pair["refresh_token"]})).status_code == 401
    assert await me(api, other) == 200


async def test_logout_by_refresh_token(api: httpx.AsyncClient, pair: Pair) -> None:
    """A refresh token signs its session out, also an old one, and doing it twice is no error."""
    await api.post(REFRESH, json={"refresh_token": pair["refresh_token"]})
    for _ in range(2):
        assert (await api.post(LOGOUT, json={"refresh_token": pair["refresh_token"]})).status_code == 204
    assert await me(api, pair) == 401


async def test_logout_by_cookies(api: httpx.AsyncClient, member: Member) -> None:
    """A browser signs out by its cookies, from this origin only, and has none left."""
    await by_cookie(api, member)
    assert (await api.post(LOGOUT, headers=CROSS_SITE)).status_code == 403
    assert (await api.get(ME)).status_code == 200
    assert (await api.post(LOGOUT, headers=SAME_ORIGIN)).status_code == 204
    assert set(api.cookies) == {"device"}  # who signs in next is still no stranger
    assert (await Session.objects.aget()).revoke_reason == "signed_out"


async def test_logout_by_refresh_cookie_alone(api: httpx.AsyncClient, member: Member) -> None:
    """When the access cookie has expired, the refresh cookie still signs out; an expired access token no less."""
    await by_cookie(api, member)
    refresh_cookie = {"Cookie": f"refresh_token={api.cookies['refresh_token']}"}
    api.cookies.clear()
    assert (await api.post(LOGOUT, headers={**refresh_cookie, **CROSS_SITE})).status_code == 403
    with clock.shifted(700):
        assert (await api.post(LOGOUT, headers={**refresh_cookie, **SAME_ORIGIN})).status_code == 204
    assert (await Session.objects.aget()).revoked_at is not None


async def test_logout_clears_the_cookies_of_a_session_that_is_over(api: httpx.AsyncClient, member: Member) -> None:
    """A browser cannot drop HttpOnly cookies: signing out again, or with worthless ones, clears them."""
    await by_cookie(api, member)
    dead = {"Cookie": "; ".join(f"{name}={value}" for name, value in api.cookies.items())}
    assert (await api.post(LOGOUT, headers=SAME_ORIGIN)).status_code == 204
    api.cookies.clear()
    worthless = ({"Cookie": "access_token=a.b.c"}, {"Cookie": "refresh_token=x"})
    for cookie in (dead, *worthless):
        answer = await api.post(LOGOUT, headers={**cookie, **SAME_ORIGIN})
        assert answer.status_code == 204
        assert len(answer.headers.get_list("set-cookie")) == 2
        assert (await api.post(LOGOUT, headers={**cookie, **CROSS_SITE})).status_code in {401, 403}


async def test_the_form_is_known_by_its_type_in_any_case(api: httpx.AsyncClient, member: Member) -> None:
    """Media types are compared without regard to case (RFC 9110 §8.3.1)."""
    form = {"username": member["email"], "password": PASSWORD}
    answer = await api.post(SIGNIN, data=form, headers={"Content-Type": "Application/X-WWW-Form-Urlencoded"})
    assert answer.status_code == 204


async def test_logout_without_credential(api: httpx.AsyncClient, signing_key: str) -> None:
    """Nothing to sign out: 401 with a challenge; a forged token: 401 as well."""
    answer = await api.post(LOGOUT)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'Bearer realm="ironauth"')
    assert (await api.post(LOGOUT, json={"refresh_token": "A" * 70})).status_code == 401
    assert (await api.post(LOGOUT, headers={"Authorization": "Bearer a.b.c"})).status_code == 401


async def test_logout_all(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """Signing out everywhere ends every session of the person, this one included, at once."""
    other = (await api.post(SIGNIN, json={"email": member["email"], "password": PASSWORD})).json()
    assert [await me(api, each) for each in (pair, other)] == [200, 200]
    answer = await api.post(LOGOUT_ALL, headers=bearer(pair))
    assert answer.status_code == 204
    assert [await me(api, each) for each in (pair, other)] == [401, 401]
    for each in (pair, other):
        assert (await api.post(REFRESH, json={"refresh_token": each["refresh_token"]})).status_code == 401
    assert (await api.post(SIGNIN, json={"email": member["email"], "password": PASSWORD})).status_code == 200


# ------------------------------------------------------------------ verify
async def test_verify(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """Forward-auth gets 204 with the subject, session, roles and scope, and nothing a proxy may store."""
    answer = await api.get(VERIFY, headers=bearer(pair))
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["x-auth-subject"] == member["id"]
    assert answer.headers["x-auth-session"] == pair["session_id"]
    assert (answer.headers["x-auth-roles"], answer.headers["x-auth-scope"]) == ("", "account")
    assert answer.headers["cache-control"] == "no-store"
    assert (await api.head(VERIFY, headers=bearer(pair))).status_code == 204


async def test_verify_roles(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """Role names are joined by commas; what is not plain ASCII, a comma or a line break inside one is encoded."""
    user = await User.objects.aget(pk=member["id"])
    for name in ("editors", "a,b", "Café\r\nX-Evil: 1", "sales team"):
        group = await user.groups.acreate(name=name)
        await user.groups.aadd(group)
    answer = await api.get(VERIFY, headers=bearer(pair))
    assert answer.headers["x-auth-roles"] == "Caf%C3%A9%0D%0AX-Evil: 1,a%2Cb,editors,sales team"
    assert "x-evil" not in answer.headers


async def test_verify_asks_for_scopes(api: httpx.AsyncClient, pair: Pair) -> None:
    """Anybody who names scopes hears 403 for a token without one of them; what is no scope is repeated nowhere."""
    for _ in range(2):  # the second time from the hot lane, which must not mix them up
        for query, status, lacking in (
            ("", 204, ""), ("scope=account", 204, ""), ("scope=", 204, ""), ("scope=reports", 403, "reports"),
            ("scope=account+reports+a", 403, "a reports"), ("scope=account&scope=reports", 403, "reports"),
            ("%73cope=reports", 403, "reports"), ("scope=%22%0D%0AX-Evil:1", 403, "X-Evil:1"),
            ("scope=%C3%A9%22", 403, ""), (f"scope=account&x={'x' * 300}", 204, ""), ("other=reports", 204, ""),
        ):  # fmt: skip
            answer = await api.get(f"{VERIFY}?{query}", headers=bearer(pair))
            assert answer.status_code == status, query
            if status == 403:
                assert answer.headers["www-authenticate"].endswith(f'error="insufficient_scope", scope="{lacking}"')
                assert "x-evil" not in answer.headers
    assert (await api.get(f"{VERIFY}?scope=account")).status_code == 401


async def test_verify_refuses(api: httpx.AsyncClient, pair: Pair) -> None:
    """Without credential, with a bad one, and after sign-out the answer is 401 with a challenge."""
    assert (await api.get(VERIFY)).headers["www-authenticate"] == api_challenge()
    assert (await api.get(VERIFY, headers={"Authorization": "Bearer a.b.c"})).status_code == 401
    await api.post(LOGOUT, headers=bearer(pair))
    assert (await api.get(VERIFY, headers=bearer(pair))).status_code == 401


# ------------------------------------------------------------------ password
NEW_PASSWORD = "seven quiet lanterns over Bern"


async def test_change_password(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """A new password ends every session, the caller's too, and gives the caller a new one."""
    other = (await api.post(SIGNIN, json={"email": member["email"], "password": PASSWORD})).json()
    body = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
    answer = await api.post(PASSWORD_URL, json=body, headers=bearer(pair))
    assert answer.status_code == 200, answer.text
    fresh = answer.json()
    assert fresh["session_id"] not in {pair["session_id"], other["session_id"]}
    assert [await me(api, each) for each in (pair, other, fresh)] == [401, 401, 200]
    for each in (pair, other):
        assert (await api.post(REFRESH, json={"refresh_token": each["refresh_token"]})).status_code == 401
    statuses = [
        (await api.post(SIGNIN, json={"email": member["email"], "password": password})).status_code
        for password in (PASSWORD, NEW_PASSWORD)
    ]
    assert statuses == [401, 200]


async def test_change_password_by_cookie(api: httpx.AsyncClient, member: Member) -> None:
    """A browser gets the TokenPair and its new session as cookies too; another site gets 403."""
    await by_cookie(api, member)
    before = dict(api.cookies)
    body = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
    assert (await api.post(PASSWORD_URL, json=body, headers=CROSS_SITE)).status_code == 403
    answer = await api.post(PASSWORD_URL, json=body, headers=SAME_ORIGIN)
    assert (answer.status_code, answer.json()["access_token"]) == (200, api.cookies["access_token"])
    assert api.cookies["access_token"] != before["access_token"]
    assert (await api.get(ME)).status_code == 200


async def test_change_password_refusals(api: httpx.AsyncClient, pair: Pair) -> None:
    """A wrong current password is 401, a bad new one 400 with its field, and neither ends the session."""
    for body, status in (
        ({"current_password": "wrong", "new_password": NEW_PASSWORD}, 401),
        ({"current_password": PASSWORD, "new_password": "short"}, 400),
        ({}, 400),
    ):
        answer = await api.post(PASSWORD_URL, json=body, headers=bearer(pair))
        assert answer.status_code == status, answer.text
    for current in ({"current_password": 5}, {}):
        answer = await api.post(PASSWORD_URL, json={**current, "new_password": "short"}, headers=bearer(pair))
        assert {error["field"] for error in answer.json()["errors"]} == {"current_password", "new_password"}
    assert await me(api, pair) == 200


# ------------------------------------------------------------------ without a key
async def test_sign_in_of_somebody_deleted_that_moment(
    api: httpx.AsyncClient, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An account that goes between the password's check and the session is refused like any unknown one."""

    def look_and_delete(user_id: UUID) -> Account | None:
        found = account_snapshot(user_id)
        User.objects.filter(pk=user_id).delete()
        return found

    monkeypatch.setattr(user_queries, "account_snapshot", look_and_delete)
    answer = await api.post(SIGNIN, json={"email": member["email"], "password": member["password"]})
    assert (answer.status_code, answer.json()["code"]) == (401, "invalid_credentials")
    assert await Session.objects.acount() == 0


async def test_sign_in_without_signing_key(api: httpx.AsyncClient, member: Member) -> None:
    """A server without signing key answers 503 with Retry-After, and works as soon as there is one."""
    await SigningKey.objects.all().adelete()
    key_store().forget()
    credentials = {"email": member["email"], "password": PASSWORD}
    answer = await api.post(SIGNIN, json=credentials)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    await database().write(create_first_keys)
    assert (await api.post(SIGNIN, json=credentials)).status_code == 200
