"""A level that a client has to have (an essential ``acr``): who can reach it is asked, who cannot is refused."""

import json
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from tokens.oauth.models import AuthorizationCode, Consent
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, by_password, is_page, say, send
from tokens.sessions.models import Session
from tokens.tests.browser import SAME_ORIGIN, Member, Pair
from tokens.tests.second_factor import enrol

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

CODE = "/oauth/signin/code"
UNMET = "unmet_authentication_requirements"


def level(*values: str, essential: bool = True) -> str:
    """Return the parameter that asks for one of these levels."""
    return json.dumps({"id_token": {"acr": {"essential": essential, "values": list(values)}}})


async def client_of(trusted: bool = True) -> Any:
    """Return a new client."""
    return (await sync_to_async(make_client)(trusted=trusted))[0]


async def signed_in(api: httpx.AsyncClient, member: Member) -> None:
    """Sign in by a password alone, before there is a second factor."""
    page = await authorize(api, await client_of())
    assert "code" in answered(await by_password(api, page, member["email"]))
    await AuthorizationCode.objects.all().adelete()


async def keep_device(api: httpx.AsyncClient, member: Member, code: str) -> None:
    """Sign in with both factors, and keep the browser as a device."""
    page = await api.get("/account/signin", headers=SAME_ORIGIN)
    asked = await by_password(api, page, member["email"])
    assert (await send(api, asked, CODE, code=code, keep_device="1")).status_code == 303


@pytest.mark.parametrize("values", [("aal2",), ("aal3", "aal2")])
async def test_who_has_a_factor_by_now_is_asked(
    api: httpx.AsyncClient, signing_key: str, member: Member, pair: Pair, values: tuple[str, ...]
) -> None:
    """A session of before is no reason to refuse: a new sign-in reaches the level, and its session is enough then."""
    client = await client_of()
    await signed_in(api, member)
    app, _ = await enrol(api, pair)
    page = await authorize(api, client, claims=level(*values))
    assert is_page(page, 200, "/oauth/signin")
    asked = await by_password(api, page, member["email"])
    assert is_page(asked, 200, "One more step")
    assert "code" in answered(await send(api, asked, CODE, code=app.code()))
    assert "code" in answered(await authorize(api, client, claims=level(*values)))


async def test_nobody_is_asked_silently(api: httpx.AsyncClient, signing_key: str, member: Member, pair: Pair) -> None:
    """The client hears at once that the level is not met, and by a page it gets its person asked."""
    client = await client_of()
    await signed_in(api, member)
    await enrol(api, pair)
    assert answered(await authorize(api, client, claims=level("aal2"), prompt="none"))["error"] == UNMET
    assert not await AuthorizationCode.objects.aexists()


async def test_without_a_factor(api: httpx.AsyncClient, signing_key: str, member: Member) -> None:
    """They are asked once, and the client hears the error after that: no page leads round in a circle."""
    client = await client_of()
    await signed_in(api, member)
    page = await authorize(api, client, claims=level("aal2"))
    assert is_page(page, 200, "/oauth/signin")
    assert answered(await by_password(api, page, member["email"]))["error"] == UNMET
    assert not await AuthorizationCode.objects.aexists()


@pytest.mark.parametrize(
    ("claims", "error"),
    [
        (level("aal1"), None),
        (level("aal2", "aal1"), None),
        (level("aal2", essential=False), None),
        (level("aal3"), UNMET),
    ],
)
async def test_no_new_sign_in_for_nothing(
    api: httpx.AsyncClient, signing_key: str, member: Member, pair: Pair, claims: str, error: str | None
) -> None:
    """Where the session is enough, or nothing would be, nobody is asked."""
    client = await client_of()
    await signed_in(api, member)
    await enrol(api, pair)
    assert answered(await authorize(api, client, claims=claims)).get("error") == error


@pytest.mark.parametrize("renewed", [True, False])
async def test_a_session_renewed_before_allow(
    api: httpx.AsyncClient, signing_key: str, member: Member, pair: Pair, settings: Settings, renewed: bool
) -> None:
    """The level is that of the session in which *Allow* is pressed, whatever it was when the page was shown.

    Another tab, opened before, may have renewed it by a kept device meanwhile.
    """
    settings.IRONAUTH_KEEP_DEVICE_DAYS = 30
    app, _ = await enrol(api, pair)
    client = await client_of(trusted=False)
    await keep_device(api, member, app.code())
    tab = await authorize(api, await client_of())
    page = await authorize(api, client, claims=level("aal2"))
    asked = await by_password(api, page, member["email"])
    page = await send(api, asked, CODE, code=app.code(1))
    assert is_page(page, 200, "/oauth/consent")
    if renewed:
        assert "code" in answered(await by_password(api, tab, member["email"]))
    assert await Session.objects.filter(amr="pwd kept_device").aexists() is renewed
    await AuthorizationCode.objects.all().adelete()
    said = answered(await say(api, page, "allow"))
    assert said.get("error") == (UNMET if renewed else None)
    assert await AuthorizationCode.objects.aexists() is not renewed
    assert (await Consent.objects.aexists()) is not renewed
