"""New devices: which devices are known, who is told, and what it costs."""

import re
from collections.abc import Callable
from typing import Any, Final

import httpx
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import Settings

from accounts.email.tests.test_email_flows import delivered
from accounts.outbox.models import OutgoingMail
from accounts.users.models import User
from accounts.users.outputs import Account
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.sessions import known_devices
from tokens.sessions.known_devices import MOST
from tokens.sessions.models import KnownDevice
from tokens.sign_in import units as sign_in_units
from tokens.sign_in.proofs import ByPassword
from tokens.tests.browser import PASSWORD_URL, SIGNIN, by_cookie

pytestmark = [pytest.mark.django_db, pytest.mark.storage, pytest.mark.usefixtures("still_clock")]

DAY: Final = 86_400
FIREFOX: Final = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
NEWER_FIREFOX: Final = FIREFOX.replace("140", "141")
CHROME: Final = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36"
HOME: Final = ClientContext(address="198.51.100.7", user_agent=FIREFOX)


@pytest.fixture
def account(new_account: Callable[[], Account]) -> Account:
    """Somebody who has never signed in."""
    return new_account()


def told(account: Account, context: ClientContext, new_device: str = "") -> bool:
    """Sign in from there; return whether it made a message."""
    before = OutgoingMail.objects.count()
    known_devices.note(account=account, context=context._replace(new_device=new_device))
    return OutgoingMail.objects.count() > before


def test_the_first_sign_in_is_never_told(account: Account, new_account: Callable[[], Account]) -> None:
    """Not even a year after the sign-up; and one person's devices say nothing about another's."""
    assert not told(account, HOME)
    with clock.shifted(365 * DAY):
        assert not told(new_account(), ClientContext(address="203.0.113.9", user_agent=CHROME))


@pytest.mark.parametrize(
    ("context", "is_new"),
    [
        (HOME, False),
        (HOME._replace(user_agent=NEWER_FIREFOX), False),
        (HOME._replace(address="198.51.255.255"), False),
        (HOME._replace(address="198.52.0.0"), True),
        (HOME._replace(address="2001:db8::1"), True),
        (HOME._replace(address=""), True),
        (HOME._replace(user_agent=CHROME), True),
        (HOME._replace(user_agent=FIREFOX.replace("X11; Linux x86_64", "Windows NT 10.0")), True),
        (HOME._replace(user_agent="curl/8.9"), True),
        (HOME._replace(user_agent=""), True),
    ],
)
def test_kind_and_network_tell(account: Account, context: ClientContext, is_new: bool) -> None:
    """An update or another address of the same /16 is no news; another browser, system or network is, once."""
    told(account, HOME)
    assert told(account, context) == is_new
    assert not told(account, context)
    assert not told(account, HOME)


@pytest.mark.parametrize(("address", "is_new"), [("2001:db8:ffff::1", False), ("2001:db9::1", True)])
def test_networks_of_ipv6(account: Account, address: str, is_new: bool) -> None:
    """The first 32 bits tell."""
    told(account, HOME._replace(address="2001:db8::7"))
    assert told(account, HOME._replace(address=address)) == is_new


def test_ipv4_in_ipv6_clothing_is_ipv4(account: Account) -> None:
    """As clients of IPv4 come to a server that listens on `::`; they are not all in one network."""
    told(account, HOME)
    assert not told(account, HOME._replace(address="::ffff:198.51.9.9"))
    assert told(account, HOME._replace(address="::ffff:192.0.2.1"))
    assert told(account, HOME._replace(address="::ffff:203.0.113.9"))


def test_programs_are_told_apart_by_their_names(account: Account) -> None:
    """A new version is no news, another program is."""
    told(account, HOME._replace(user_agent="Shop/1.2 (iPhone; iOS 19.0)"))
    assert not told(account, HOME._replace(user_agent="Shop/1.3 (iPhone; iOS 19.1)"))
    assert told(account, HOME._replace(user_agent="python-requests/2.32"))


def test_a_cookie_tells_wherever_it_goes(account: Account) -> None:
    """The cookie of the last sign-in makes a device known anywhere; an older one, or another person's, does not."""
    told(account, HOME, new_device="first")
    abroad = ClientContext(address="203.0.113.9", user_agent=CHROME)
    assert not told(account, abroad._replace(device="first"), new_device="second")
    assert not told(account, HOME._replace(address="192.0.2.1", device="second"), new_device="third")
    assert told(account, abroad._replace(address="192.0.2.1", device="first"), new_device="fourth")
    assert KnownDevice.objects.filter(user_id=account.id).count() == 2


def test_two_alike_in_one_network_keep_their_cookies(account: Account) -> None:
    """The second laptop at home is no news, and makes the first no stranger on its travels."""
    told(account, HOME, new_device="first")
    assert not told(account, HOME, new_device="second")
    for cookie, address in (("first", "192.0.2.1"), ("second", "203.0.113.9")):
        assert not told(account, HOME._replace(address=address, device=cookie), new_device=f"{cookie} again")
    assert KnownDevice.objects.count() == 2


@pytest.mark.parametrize(("after", "is_new"), [(180 * DAY - 1, False), (180 * DAY + 1, True)])
def test_a_device_is_forgotten(account: Account, after: int, is_new: bool) -> None:
    """After half a year away it is news, also by its cookie; that there was one is not forgotten."""
    told(account, HOME, new_device="cookie")
    with clock.shifted(after):
        assert told(account, HOME._replace(device="cookie")) == is_new


def test_a_device_in_use_is_not_forgotten(account: Account) -> None:
    """Each day's sign-in counts."""
    for day in range(0, 400, 100):
        with clock.shifted(day * DAY):
            assert not told(account, HOME)


def test_the_newest_stay(account: Account, new_account: Callable[[], Account]) -> None:
    """Of many devices the one not seen for longest makes room; nobody else's does."""
    other = new_account()
    told(other, HOME)
    for n in range(MOST + 1):
        with clock.shifted(n):
            told(account, ClientContext(address=f"10.{n}.0.1", user_agent=FIREFOX))
    assert KnownDevice.objects.filter(user_id=account.id).count() == MOST
    with clock.shifted(MOST + 1):
        assert not told(account, ClientContext(address="10.1.0.1", user_agent=FIREFOX))
        assert told(account, ClientContext(address="10.0.0.1", user_agent=FIREFOX))
        assert not told(other, HOME)


def test_nothing_says_where_somebody_was(account: Account) -> None:
    """The rows hold MACs, not addresses, names of browsers or cookies; they go with the person."""
    told(account, HOME._replace(device="brought"), new_device="given")
    row = str(KnownDevice.objects.values().get())
    assert not any(text in row for text in ("198.51", "Firefox", "brought", "given"))
    User.objects.get(pk=account.id).delete()
    assert not KnownDevice.objects.exists()


def test_query_counts(account: Account, settings: Settings) -> None:
    """Off: nothing. On: one query for a device of today, two for one with a cookie or of another day: frozen."""
    who = ByPassword(account.id, account.session_epoch)

    def queries(**client: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            sign_in_units.open_session(who, context=ClientContext("198.51.100.7", FIREFOX, **client))
        return len([q for q in captured.captured_queries if not q["sql"].startswith(("SAVEPOINT", "RELEASE"))])

    without = queries()
    settings.IRONAUTH_NEW_DEVICE_MAIL = True
    assert [queries() - without, queries() - without] == [2, 1]
    assert [queries(new_device="a") - without, queries(device="a", new_device="b") - without] == [2, 2]
    with clock.shifted(DAY - 5):
        assert queries() - without == 1
    with clock.shifted(DAY + 5):
        assert queries() - without == 2
    settings.IRONAUTH_NEW_DEVICE_MAIL = False
    with clock.shifted(300 * DAY):
        assert queries() == without
    assert not OutgoingMail.objects.exists()


# ---------------------------------------------------------------- through HTTP
@pytest.mark.django_db(transaction=True)
async def test_the_message(api: httpx.AsyncClient, member: dict[str, Any], settings: Settings) -> None:
    """It says when, what and context, in words of ours; a link that a stranger put into the user agent is not in it."""
    settings.IRONAUTH_NEW_DEVICE_MAIL = True
    credentials = {"email": member["email"], "password": PASSWORD}
    for agent in (FIREFOX, "Mozilla/5.0 (visit https://evil.example; Windows) evil.example Chrome/1"):
        assert (await api.post(SIGNIN, json=credentials, headers={"User-Agent": agent})).status_code == 200
    mail = await OutgoingMail.objects.aget()
    assert mail.facts["device"] == "Chrome on Windows"
    assert mail.facts["address"] == "127.0.0.1"
    assert re.fullmatch(r"[1-9][0-9]? [A-Z][a-z]+ 20[0-9]{2}, [0-9]{2}:[0-9]{2} UTC", mail.facts["time"])
    assert "evil" not in str(mail.facts)
    assert await delivered() == [(member["email"], "A sign-in from a new device", None)]


@pytest.mark.django_db(transaction=True)
async def test_a_browser_with_its_cookie_is_known(
    api: httpx.AsyncClient, member: dict[str, Any], settings: Settings
) -> None:
    """A new version under another name is no news where the cookie is; a wrong password makes neither news nor rows."""
    settings.IRONAUTH_NEW_DEVICE_MAIL = True
    await api.post(SIGNIN, json={"email": member["email"], "password": "wrong"})
    assert not await KnownDevice.objects.aexists()
    for agent in (FIREFOX, CHROME):
        api.headers["User-Agent"] = agent
        await by_cookie(api, member)
    assert not await OutgoingMail.objects.aexists()
    api.cookies.clear()
    api.headers["User-Agent"] = "curl/8"
    await by_cookie(api, member)
    assert await OutgoingMail.objects.acount() == 1


@pytest.mark.parametrize("told", [True, False])
def test_a_sign_in_to_the_admin_is_one_too(new_email: Callable[[], str], settings: Settings, told: bool) -> None:
    """It makes a device known and is told when it is a new one, once; not where such messages are off."""
    settings.IRONAUTH_NEW_DEVICE_MAIL = told
    staff = User.objects.create_user(email=new_email(), password=PASSWORD, is_staff=True)
    form = {"username": staff.email, "password": PASSWORD}
    for agent in (FIREFOX, CHROME, CHROME):
        answer = Client(headers={"User-Agent": agent}).post(reverse("admin:login"), form)
        assert answer.status_code == 302
    facts = [mail.facts for mail in OutgoingMail.objects.filter(kind="new_device", recipient=staff.email)]
    assert [(fact["device"], fact["address"]) for fact in facts] == [("Chrome on Linux", "127.0.0.1")] * told
    assert KnownDevice.objects.filter(user_id=staff.pk).count() == 2 * told


@pytest.mark.django_db(transaction=True)
async def test_a_change_of_password_is_no_sign_in(
    api: httpx.AsyncClient, pair: dict[str, Any], member: dict[str, Any], settings: Settings
) -> None:
    """The session it opens is the caller's own, who has a message about the change already."""
    settings.IRONAUTH_NEW_DEVICE_MAIL = True
    body = {"current_password": PASSWORD, "new_password": "seven amber kites over Lyon"}
    answer = await api.post(PASSWORD_URL, json=body, headers={"Authorization": f"Bearer {pair['access_token']}"})
    assert answer.status_code == 200
    assert [mail.kind async for mail in OutgoingMail.objects.all()] == ["password_changed"]
