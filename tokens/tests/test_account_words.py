"""What the pages of an account say to the person who reads them, and before something is done."""

from collections.abc import Awaitable

import httpx
import pytest

from accounts.mfa.errors import WRONG_RECOVERY_CODE
from accounts.mfa.totp.models import TotpFactor
from accounts.users.models import User
from accounts.users.step_up import RECENT_S
from ironauth.config.cookies import OWN_LANGUAGE
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http import cookies
from tokens.tests.browser import SAME_ORIGIN, Member, Pair, by_cookie
from tokens.tests.second_factor import enrol
from tokens.tests.test_account_page import HOME, press

pytestmark = [pytest.mark.django_db(transaction=True)]

REPLACED = "They replace the ones you have."


async def without_cookies(api: httpx.AsyncClient, act: Awaitable[object]) -> None:
    """Do something by a bearer token, which no cookie may come with."""
    held, api.cookies = api.cookies, httpx.Cookies()
    await act
    api.cookies = held


@pytest.mark.parametrize("own", ["de", ""])
async def test_the_first_page_is_in_the_persons_language(api: httpx.AsyncClient, member: Member, own: str) -> None:
    """Not in the browser's, nor in that of the person who was here before; who has chosen none gets the browser's."""
    await User.objects.filter(pk=member["id"]).aupdate(language=own)
    await by_cookie(api, member)
    api.cookies.set(cookies.name_of(OWN_LANGUAGE), "es")
    page = await api.get(HOME, headers={"Accept-Language": "fr", **SAME_ORIGIN})
    spoken = own or "fr"
    assert f'lang="{spoken}"' in page.text
    assert page.headers["content-language"] == spoken
    assert {"de": "Abmelden", "fr": "Se déconnecter"}[spoken] in page.text


async def test_a_wrong_recovery_code_is_told_as_one(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """Nobody is told to wait for the next one; a wrong code of the app is told as before."""
    await by_cookie(api, member)
    await without_cookies(api, enrol(api, pair))
    api.headers.update(SAME_ORIGIN)
    with clock.shifted(RECENT_S + 1):
        wrong = await press(api, f"{HOME}/passkeys", "new", proof_recovery_code="7k3d-9w2m-x4pq-8n5t")
        assert wrong.status_code == 401
        assert WRONG_RECOVERY_CODE in wrong.text
        assert 'id="proof_recovery_code-problem"' in wrong.text
        wrong = await press(api, f"{HOME}/passkeys", "new", proof_code="000000")
        assert WRONG_RECOVERY_CODE not in wrong.text
        assert "wait for the next one" in wrong.text


async def test_who_has_recovery_codes_hears_that_an_app_replaces_them(
    api: httpx.AsyncClient, member: Member, pair: Pair
) -> None:
    """Before it is set up; who has none hears nothing of it."""
    await by_cookie(api, member)
    api.headers.update(SAME_ORIGIN)
    assert REPLACED not in (await api.get(f"{HOME}/codes")).text
    await without_cookies(api, enrol(api, pair))
    assert REPLACED not in (await api.get(f"{HOME}/codes")).text  # it is set up already
    await TotpFactor.objects.all().adelete()
    assert REPLACED in (await api.get(f"{HOME}/codes")).text
