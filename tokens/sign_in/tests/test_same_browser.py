"""Who signs in anew in a browser has one session there: the one whose cookie is replaced ends; others stay."""

from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.infrastructure.http.client_context import ClientContext
from ironauth.tests.at_once import at_once
from tokens.oauth.tests.walk import by_password
from tokens.sessions.models import Session
from tokens.sign_in import units
from tokens.sign_in.proofs import ByPassword
from tokens.sign_in.tests.test_kept_devices import with_password
from tokens.tests.browser import ME, PASSWORD_URL, REFRESH, SAME_ORIGIN, SIGNIN, Member, by_cookie
from tokens.tests.second_factor import SIGNIN_MFA, enrol, password_only

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

SIGNUP = "/api/v1/access/signup"
AT_ONCE = 4


async def live() -> list[Session]:
    return [one async for one in Session.objects.filter(revoked_at=None).order_by("created_at", "pk")]


async def test_by_form(api: httpx.AsyncClient, member: Member) -> None:
    """The first session is over at once, its refresh token too; the event of the second names it."""
    await by_cookie(api, member)
    first, (old,) = dict(api.cookies), await live()
    await by_cookie(api, member)
    (new,) = await live()
    assert new.pk != old.pk
    assert (await api.get(ME)).status_code == 200
    bare = httpx.AsyncClient(transport=api._transport, base_url="http://testserver")
    assert (await bare.get(ME, headers={"Authorization": f"Bearer {first['access_token']}"})).status_code == 401
    assert (await bare.post(REFRESH, json={"refresh_token": first["refresh_token"]})).status_code == 401
    events = [one async for one in AuditEvent.objects.filter(event__in=("sign_in", "sign_out", "session_ended"))]
    assert [one.details for one in events if one.session_id == new.pk] == [{"replaces": str(old.pk)}]
    assert {one.event for one in events} == {"sign_in"}


async def test_by_page(api: httpx.AsyncClient, member: Member) -> None:
    """On the page of this site, a later generation of the token too."""
    assert (await with_password(api, member)).status_code == 303
    assert (await api.post(REFRESH, headers=SAME_ORIGIN)).status_code == 204
    assert (await with_password(api, member)).status_code == 303
    assert len(await live()) == 1


def tab(api: httpx.AsyncClient) -> httpx.AsyncClient:
    """Return another tab, whose request has the cookies of now."""
    return httpx.AsyncClient(transport=api._transport, base_url="http://testserver", cookies=dict(api.cookies))


async def test_two_tabs(api: httpx.AsyncClient, member: Member) -> None:
    """The request of the later tab has the cookies of before; what the earlier one has opened ends all the same."""
    page = await api.get("/account/signin")
    other = tab(api)
    assert (await by_password(api, page, member["email"])).status_code == 303
    (old,) = await live()
    assert (await by_password(other, page, member["email"])).status_code == 303
    (new,) = await live()
    assert new.pk != old.pk
    assert (await api.get(ME)).status_code == 401
    assert (await other.get(ME)).status_code == 200
    event = await AuditEvent.objects.aget(event="sign_in", session_id=new.pk)
    assert event.details == {"replaces": str(old.pk)}


async def test_two_tabs_of_two_people(api: httpx.AsyncClient, member: Member, new_email: Callable[[], str]) -> None:
    """It was another person: nobody could end that session in the browser any more, so its person is signed out."""
    other = {"email": new_email(), "password": PASSWORD}
    await api.post(SIGNUP, json=other)
    page = await api.get("/account/signin")
    second = tab(api)
    await by_password(api, page, member["email"])
    (theirs,) = await live()
    await by_password(second, page, other["email"])
    assert len(await live()) == 1
    event = await AuditEvent.objects.aget(event="sign_out")
    assert (str(event.user_id), event.session_id) == (member["id"], theirs.pk)


async def test_tabs_of_two_browsers(api: httpx.AsyncClient, member: Member) -> None:
    """What another browser has opened at the same moment stays, and so does what a program has."""
    other = httpx.AsyncClient(transport=api._transport, base_url="http://testserver")
    pages = [await one.get("/account/signin") for one in (api, other)]
    for one, page in zip((api, other), pages, strict=True):
        assert (await by_password(one, page, member["email"])).status_code == 303
    await api.post(SIGNIN, json={"email": member["email"], "password": PASSWORD})
    assert len(await live()) == 3
    assert {one.browser for one in await live()} >= {""}
    assert len({one.browser for one in await live()}) == 3


@pytest.mark.parametrize("people", [1, 2])
def test_tabs_at_once(people: int) -> None:
    """However many run at the same moment, in transactions of their own: one session is left."""
    users = [User.objects.create_user(email=f"tab{number}@example.com", password=None) for number in range(people)]
    context = ClientContext(browser="b" * 43)

    def sign_in(number: int) -> None:
        user = users[number % people]
        units.open_session(ByPassword(user.pk, user.session_epoch), context=context)

    assert at_once(*(partial(sign_in, number) for number in range(AT_ONCE))) == [None] * AT_ONCE
    assert Session.objects.count() == AT_ONCE
    assert Session.objects.filter(revoked_at=None).count() == 1


async def test_by_second_factor(api: httpx.AsyncClient, member: Member) -> None:
    """Nothing ends for the right password alone; with the second factor the session does."""
    pair = (await api.post(SIGNIN, json={"email": member["email"], "password": PASSWORD})).json()
    app, _ = await enrol(api, pair)
    await Session.objects.all().adelete()
    asked = await password_only(api, member)
    body = {"mfa_token": asked["mfa_token"], "transport": "cookie"}
    assert (await api.post(SIGNIN_MFA, json={**body, "code": app.code()}, headers=SAME_ORIGIN)).status_code == 204
    (old,) = await live()
    again = await password_only(api, member)
    assert [one.pk for one in await live()] == [old.pk]
    body = {"mfa_token": again["mfa_token"], "transport": "cookie"}
    assert (await api.post(SIGNIN_MFA, json={**body, "code": app.wrong()}, headers=SAME_ORIGIN)).status_code == 401
    assert [one.pk for one in await live()] == [old.pk]
    done = await api.post(SIGNIN_MFA, json={**body, "code": app.code(1)}, headers=SAME_ORIGIN)
    assert done.status_code == 204
    (new,) = await live()
    assert new.pk != old.pk


async def test_a_wrong_password_ends_nothing(api: httpx.AsyncClient, member: Member) -> None:
    """Only a sign-in replaces."""
    await by_cookie(api, member)
    answer = await api.post(SIGNIN, data={"username": member["email"], "password": "wrong"})
    assert answer.status_code == 401
    assert (await api.get(ME)).status_code == 200


async def test_programs_keep_their_tokens(api: httpx.AsyncClient, member: Member) -> None:
    """Who gets tokens in the body replaces no cookie, also where one is brought; without one nothing is replaced."""
    body = {"email": member["email"], "password": PASSWORD}
    pairs = [(await api.post(SIGNIN, json=body)).json() for _ in range(3)]
    await by_cookie(api, member)
    pairs.append((await api.post(SIGNIN, json=body)).json())
    assert len(await live()) == 5
    for pair in pairs:
        assert (await api.get(ME, headers={**bearer(pair), "Cookie": ""})).status_code == 200
    assert (await api.get(ME)).status_code == 200


async def test_another_browser_stays(api: httpx.AsyncClient, member: Member) -> None:
    """It brings another cookie."""
    other = httpx.AsyncClient(transport=api._transport, base_url="http://testserver")
    await by_cookie(other, member)
    for _ in range(2):
        await by_cookie(api, member)
    assert (await other.get(ME)).status_code == 200
    assert len(await live()) == 2


async def test_somebody_else(api: httpx.AsyncClient, member: Member, new_email: Callable[[], str]) -> None:
    """Their cookie is replaced too, so that nobody could end their session there any more: they are signed out."""
    other: dict[str, Any] = {"email": new_email(), "password": PASSWORD}
    await api.post(SIGNUP, json=other)
    await by_cookie(api, member)
    (theirs,) = await live()
    await by_cookie(api, other)
    assert (await api.get(ME)).json()["email"] == other["email"]
    assert theirs.pk not in [one.pk for one in await live()]
    event = await AuditEvent.objects.aget(event="sign_out")
    assert (str(event.user_id), event.session_id) == (member["id"], theirs.pk)
    async for one in AuditEvent.objects.filter(event="sign_in"):
        assert "replaces" not in one.details


@pytest.mark.parametrize("cookie", ["", "nonsense", "x" * 120])
async def test_what_is_no_token_of_ours(api: httpx.AsyncClient, member: Member, cookie: str) -> None:
    """It ends nothing and refuses nobody; nor does the id of a session without its secret."""
    await by_cookie(api, member)
    (old,) = await live()
    genuine = api.cookies["refresh_token"]
    api.cookies.clear()
    forged = cookie or genuine[:-4] + ("AAAA" if not genuine.endswith("AAAA") else "BBBB")
    form = {"username": member["email"], "password": PASSWORD}
    answer = await api.post(SIGNIN, data=form, headers={"Cookie": f"refresh_token={forged}"})
    assert answer.status_code == 204
    assert old.pk in [one.pk for one in await live()]


async def test_a_session_of_before_is_no_obstacle(api: httpx.AsyncClient, member: Member) -> None:
    """The cookie of a session that is over already, by a new password elsewhere."""
    await by_cookie(api, member)
    pair = (await api.post(SIGNIN, json={"email": member["email"], "password": PASSWORD})).json()
    change = {"current_password": PASSWORD, "new_password": "seven amber kites over Lyon"}
    assert (await api.post(PASSWORD_URL, json=change, headers={**bearer(pair), "Cookie": ""})).status_code == 200
    await by_cookie(api, {**member, "password": "seven amber kites over Lyon"})
    assert (await api.get(ME)).status_code == 200


async def test_room_is_made_by_it(api: httpx.AsyncClient, member: Member, settings: Settings) -> None:
    """Where a person has as many sessions as they may, the replaced one goes, and no other."""
    settings.IRONAUTH_MAX_SESSIONS_PER_USER = 2
    body = {"email": member["email"], "password": PASSWORD}
    await User.objects.filter(pk=member["id"]).aupdate(session_epoch=0)
    pair = (await api.post(SIGNIN, json=body)).json()
    for _ in range(3):
        await by_cookie(api, member)
    assert (await api.get(ME, headers={**bearer(pair), "Cookie": ""})).status_code == 200
    assert await sync_to_async(AuditEvent.objects.filter(event="session_ended").count)() == 0
