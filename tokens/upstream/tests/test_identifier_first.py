"""An address that is asked for first leads to the provider that runs its domain's mailboxes."""

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.federation.models import Identity, UpstreamProvider
from accounts.users.models import User
from conftest import PASSWORD
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, form_to, is_page, send
from tokens.tests.browser import Member
from tokens.upstream import providers
from tokens.upstream.tests.provider import FakeProvider
from tokens.upstream.tests.walk import back, is_in, noted, through

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("signing_key")]

SIGNIN = "/oauth/signin"


@pytest.fixture(autouse=True)
def _one_at_a_time(settings: Settings) -> None:
    settings.IRONAUTH_SIGN_IN_FORM = "identifier_first"


@pytest.fixture
async def client(transactional_db: None) -> OAuthClient:
    """One of our own clients, which asks for no consent."""
    return (await sync_to_async(make_client)(trusted=True))[0]


@pytest.fixture
async def acme(provider: FakeProvider) -> FakeProvider:
    """The provider, which runs the mailboxes of acme.example."""
    await UpstreamProvider.objects.aupdate(domains=["acme.example"])
    providers.outdated()
    return provider


async def test_a_domain_of_a_provider_goes_there(
    api: httpx.AsyncClient, acme: FakeProvider, client: OAuthClient
) -> None:
    """With the address as hint, whether it has an account or none; the provider's answer signs in."""
    await sync_to_async(User.objects.create_user)(email="known@acme.example", password=PASSWORD)
    for email in ("known@acme.example", "Ann@ACME.example"):
        asked = noted(acme, await send(api, await authorize(api, client), SIGNIN, email=email))
        assert asked["login_hint"].lower() == email.lower()
    assert answered(await back(api, acme, asked))["code"]


@pytest.mark.parametrize("email", ["ann@other.example", "ann@acme.example.org", "ann@sub.acme.example"])
async def test_another_domain_is_asked_for_its_password(
    api: httpx.AsyncClient, acme: FakeProvider, client: OAuthClient, email: str
) -> None:
    """The second page still has the provider's button."""
    page = await send(api, await authorize(api, client), SIGNIN, email=email)
    assert is_page(page, 200, 'name="password"', email, "Continue with Acme")


async def test_a_provider_that_does_not_answer(api: httpx.AsyncClient, acme: FakeProvider, client: OAuthClient) -> None:
    """The second page tells it, and asks for the password: nobody is shut out by it."""
    await UpstreamProvider.objects.aupdate(issuer="http://127.0.0.1:9")
    providers.outdated()
    await sync_to_async(User.objects.create_user)(email="known@acme.example", password=PASSWORD)
    page = await send(api, await authorize(api, client), SIGNIN, email="known@acme.example")
    assert is_page(page, 503, "does not answer", 'name="password"', "known@acme.example")
    assert answered(await send(api, page, SIGNIN, password=PASSWORD))["code"]


async def test_who_connects_an_identity_is_not_sent_back_to_it(
    api: httpx.AsyncClient, acme: FakeProvider, member: Member
) -> None:
    """The account's password is asked for, also where the person types an address of the provider's domain."""
    acme.claims = {"email": member["email"]}
    page = await through(api, acme)
    assert is_page(page, 200, 'name="password"', "Sign in to your account here once", member["email"])
    not_them = await api.post(SIGNIN, data={"request": form_to(page, SIGNIN).fields["request"], "other": "1"})
    typed = await send(api, not_them, SIGNIN, email="ann@acme.example")
    assert is_page(typed, 200, 'name="password"', "ann@acme.example")
    assert is_in(await send(api, page, SIGNIN, password=PASSWORD))
    assert (await Identity.objects.aget()).user_id == (await User.objects.aget(email=member["email"])).pk
