"""An address that nobody has verified: the answer, and the work it takes, are the same whether it is held here."""

import re

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from accounts.federation import units
from accounts.federation.kinds.kind import UpstreamPerson
from accounts.federation.models import Identity, UpstreamProvider
from accounts.federation.rules import Step
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core.ids import new_id
from tokens.oauth.tests.walk import by_password, is_page
from tokens.tests.browser import Member
from tokens.upstream.tests.provider import FakeProvider
from tokens.upstream.tests.walk import is_in, through

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

FREE = "nobody@example.com"
MODES = ("open", "invitation", "closed")
UNPROVED = ("unverified", "untrusted")


async def told(provider: FakeProvider, email: str, case: str) -> None:
    """Have the provider name an address that counts as verified, or not."""
    provider.claims = {"email": email, "email_verified": case != "unverified"}
    await UpstreamProvider.objects.aupdate(trusts_email=case != "untrusted")


async def seen(api: httpx.AsyncClient, provider: FakeProvider, email: str) -> tuple[int, str]:
    """Return the answer without what differs each time: the address itself, the signed state, and challenges."""
    api.cookies.clear()
    page = await through(api, provider)
    text = re.sub(r"[\w.-]{43,}", "", page.text)
    return page.status_code, text.replace(email, "ADDRESS")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", UNPROVED)
@pytest.mark.parametrize("is_proved", [True, False])
async def test_the_page_is_the_same(
    api: httpx.AsyncClient,
    member: Member,
    provider: FakeProvider,
    settings: Settings,
    mode: str,
    case: str,
    is_proved: bool,
) -> None:
    """Whatever the mode of sign-up, and whether the holder has proved the address."""
    settings.IRONAUTH_SIGN_UP = mode
    await User.objects.aupdate(email_verified_at="2024-01-01T00:00:00Z" if is_proved else None)
    answers = []
    for email in (member["email"], FREE):
        await told(provider, email, case)
        answers.append(await seen(api, provider, email))
    held, free = answers
    assert held == free
    assert held[0] == 200
    assert not await Identity.objects.aexists()
    assert await User.objects.acount() == 1


@pytest.mark.parametrize("case", UNPROVED)
def test_the_work_is_the_same(provider: FakeProvider, settings: Settings, case: str) -> None:
    """The same statements, and none of them looks for an account by the address."""
    settings.IRONAUTH_SIGN_UP = "open"
    User.objects.create_user("held@example.com", PASSWORD)
    row = UpstreamProvider.objects.get()
    UpstreamProvider.objects.update(trusts_email=case != "untrusted")
    asked = []
    for email in ("held@example.com", FREE):
        person = UpstreamPerson(provider.issuer, "subject-1", email, email_verified=case != "unverified")
        with CaptureQueriesContext(connection) as queries, transaction.atomic():
            found = units.resolve(provider_id=row.pk, person=person, waiting_id=new_id())
        assert (found.account, found.step) == (None, Step.SIGN_UP_FIRST)
        shapes = [re.sub(r"'[^']*'", "?", one["sql"]) for one in queries.captured_queries]
        assert not [one for one in shapes if "email_key" in one]
        asked.append(shapes)
    assert asked[0] == asked[1]


async def test_a_verified_address_finds_its_holder(
    api: httpx.AsyncClient, member: Member, provider: FakeProvider
) -> None:
    """Who reads its mail may learn it: the holder signs in first, anybody else gets an account."""
    await told(provider, member["email"], "verified")
    assert is_page(await through(api, provider), 200, "Sign in to your account here once")
    await told(provider, FREE, "verified")
    provider.claims["sub"] = "subject-2"
    assert is_in(await through(api, provider))


async def test_the_holder_goes_on_from_that_page(
    api: httpx.AsyncClient, member: Member, provider: FakeProvider
) -> None:
    """*Sign in* on the page that makes accounts links the identity, after the password."""
    await told(provider, member["email"], "untrusted")
    page = await through(api, provider)
    assert is_page(page, 200, "Create your account here once", "You have an account?")
    assert not await Identity.objects.aexists()
    assert is_in(await by_password(api, page, member["email"]))
    owner_id = await sync_to_async(lambda: Identity.objects.get().user_id)()
    assert str(owner_id) == member["id"]


async def test_an_authority_that_has_not_verified_links_nothing(
    api: httpx.AsyncClient, member: Member, provider: FakeProvider
) -> None:
    """Of its own domain too, and though the holder has proved the address."""
    await UpstreamProvider.objects.aupdate(domains=[member["email"].rpartition("@")[2]])
    await User.objects.aupdate(email_verified_at="2024-01-01T00:00:00Z")
    await told(provider, member["email"], "unverified")
    assert is_page(await through(api, provider), 200, "Create an account")
    assert not await Identity.objects.aexists()
