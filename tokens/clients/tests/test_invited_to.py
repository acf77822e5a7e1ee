"""An invitation that leads to an application: only where staff have registered that it begins a sign-in, now."""

import re
import uuid
from html import unescape

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import transaction
from pytest_django import Settings

from accounts.invitations import units
from accounts.invitations.models import Invitation
from accounts.outbox import tokens as email_tokens
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import ValidationFailed
from tokens.clients import queries, rules
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.material import make_client

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

PAGE = "/account/invitation"
NEW_PASSWORD = "seven amber kites over Lyon"
START = "https://app.example.com/start?from=mail"


@pytest.fixture
async def wiki(transactional_db: None) -> OAuthClient:
    """A client that says where its sign-in begins."""
    return (await sync_to_async(make_client)(name="Wiki", initiate_login_uri=START))[0]


@pytest.fixture(autouse=True)
def _by_invitation(settings: Settings) -> None:
    settings.IRONAUTH_SIGN_UP = "invitation"


def invite(client: str) -> Invitation:
    """Invite somebody, as a superuser, in a transaction."""
    root = User.objects.filter(is_superuser=True).first() or User.objects.create_superuser("root@example.com")
    values = {"email": "ida@example.com", "name": "", "language": "", "roles": [], "client": client}
    with transaction.atomic():
        made = units.invite(actor_id=root.pk, values=values)
    return Invitation.objects.get(pk=made.id)


def link_to(client: str) -> str:
    """Return the token of the link of an invitation."""
    token = invite(client).token
    assert token is not None
    return email_tokens.text(token)


async def invited(client: str) -> str:
    return await sync_to_async(link_to)(client)


async def accepted(api: httpx.AsyncClient, token: str, **more: str) -> httpx.Response:
    """Send the form of the invitation's page."""
    answer = await api.post(PAGE, data={"token": token, "password": NEW_PASSWORD, "name": "Ida", **more})
    assert answer.status_code == 200, answer.text
    return answer


def links(page: httpx.Response) -> list[str]:
    return [unescape(one) for one in re.findall(r'<a class="button" href="([^"]+)"', page.text)]


async def test_it_continues_there(api: httpx.AsyncClient, wiki: OAuthClient, settings: Settings) -> None:
    """The page tells it before and after; the address is the registered one, with our issuer and who was invited."""
    token = await invited(str(wiki.pk))
    assert "Then you go on to <strong>Wiki</strong>." in (await api.get(PAGE, params={"token": token})).text
    page = await accepted(api, token)
    assert "Continue to Wiki" in page.text
    assert links(page) == [f"{START}&iss=http%3A%2F%2Flocalhost%3A8000&login_hint=ida%40example.com"]


@pytest.mark.parametrize("language", ["", "de"])
async def test_the_second_click_leads_there_too(api: httpx.AsyncClient, wiki: OAuthClient, language: str) -> None:
    """The answer is the first one's, the language of the invitation with it; any other form is refused."""
    token = await invited(str(wiki.pk))
    await Invitation.objects.aupdate(language=language)
    first, second = await accepted(api, token), await accepted(api, token)
    assert links(second) == links(first) != []
    assert second.text == first.text
    assert second.headers["content-language"] == first.headers["content-language"] == (language or "en")
    other = await api.post(PAGE, data={"token": token, "password": NEW_PASSWORD, "name": "Other"})
    assert (other.status_code, links(other)) == (400, [])


async def test_never_where_a_request_says(api: httpx.AsyncClient, wiki: OAuthClient) -> None:
    """No field of the form leads anywhere else."""
    token = await invited(str(wiki.pk))
    more = dict.fromkeys(("client", "next", "start", "application", "redirect_uri"), "https://evil.example/")
    page = await accepted(api, token, **more)
    assert "evil" not in page.text
    assert len(links(page)) == 1


@pytest.mark.parametrize("change", ["disabled", "address", "deleted"])
async def test_what_is_registered_then_counts(
    api: httpx.AsyncClient,
    wiki: OAuthClient,
    change: str,
) -> None:
    """An application that is gone meanwhile is not continued to; the account is made all the same."""
    token = await invited(str(wiki.pk))
    found = OAuthClient.objects.filter(pk=wiki.pk)
    if change == "disabled":
        await found.aupdate(disabled_at=clock.now())
    elif change == "address":
        await found.aupdate(initiate_login_uri="https://moved.example.com/in")
    else:
        await found.adelete()
    page = await accepted(api, token)
    assert links(page) == (
        ["https://moved.example.com/in?iss=http%3A%2F%2Flocalhost%3A8000&login_hint=ida%40example.com"]
        if change == "address"
        else ["/account/signin"]
    )
    assert "Your account is ready" in page.text


def test_who_can_be_named(transactional_db: None) -> None:
    """None that says no address, that is disabled, or that there is not."""
    wiki, plain = make_client(name="Wiki", initiate_login_uri=START)[0], make_client(name="Plain")[0]
    off = make_client(name="Off", initiate_login_uri=START, disabled_at=clock.now())[0]
    for bad in (str(plain.pk), str(off.pk), "00000000-0000-0000-0000-000000000000", "wiki", "x" * 500):
        with pytest.raises(ValidationFailed) as refused:
            invite(bad)
        assert [one.field for one in refused.value.errors] == ["client"]
    assert not Invitation.objects.exists()
    assert invite(str(wiki.pk)).client == str(wiki.pk)
    assert queries.to_invite_to() == [(str(wiki.pk), "Wiki")]


def spelt(client_id: uuid.UUID) -> dict[str, str]:
    """Return what else the standard library reads as this id."""
    digits = client_id.hex
    return {
        "132 characters": "{" * 60 + "-" * 40 + digits,
        "hexadecimal": digits,
        "capitals": str(client_id).upper(),
        "urn": client_id.urn,
        "braces": f"{{{client_id}}}",
        "other digits": str(client_id).translate(str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")),
    }


@pytest.mark.parametrize("how", ["132 characters", "hexadecimal", "capitals", "urn", "braces", "other digits"])
async def test_an_id_has_one_spelling(api: httpx.AsyncClient, wiki: OAuthClient, signing_key: str, how: str) -> None:
    """Over HTTP: what is spelt otherwise is refused with a word to the field; as it is registered, it is stored."""
    root = await sync_to_async(User.objects.create_superuser)("staff@example.com", PASSWORD)
    answer = await api.post("/api/v1/access/signin", json={"email": root.email, "password": PASSWORD})
    headers = {"authorization": f"Bearer {answer.json()['access_token']}"}
    asked = {"email": "ida@example.com", "client": spelt(wiki.pk)[how]}
    assert asked["client"] != str(wiki.pk)
    refused = await api.post("/api/v1/users/invitations", json=asked, headers=headers)
    assert refused.status_code == 400, refused.text
    assert [(one["field"], one["code"]) for one in refused.json()["errors"]] == [("client", "unknown")]
    assert not await Invitation.objects.aexists()
    asked["client"] = str(wiki.pk)
    made = await api.post("/api/v1/users/invitations", json=asked, headers=headers)
    assert (made.status_code, made.json()["client"]) == (201, str(wiki.pk))


@pytest.mark.parametrize(
    ("uri", "is_good"),
    [
        (START, True),
        ("http://localhost:3000/in", True),
        ("http://app.example.com/in", False),
        ("com.example.app:/in", False),
        ("javascript:alert(1)", False),
        ("https://app.example.com/#in", False),
    ],
)
def test_which_address_a_client_may_have(db: None, uri: str, is_good: bool) -> None:
    """An address of the web, as a redirect URI."""
    client = make_client(name="Wiki")[0]
    client.initiate_login_uri = uri
    assert ([one.field for one in rules.problems_of(client)] == []) is is_good
