"""What a page asks of the database, frozen: the time it takes is a benchmark's (``perf.pages``), not a test's."""

from datetime import timedelta
from typing import Any, Final

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.federation.models import Identity, KeptTokens, UpstreamProvider
from accounts.federation.secrets import seal_into
from accounts.mfa.kept_devices.models import KeptDevice
from accounts.organizations.models import Membership, Organization
from accounts.pages.acts import ROWS
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from tokens.oauth.models import Consent
from tokens.oauth.tests.material import make_client
from tokens.sessions.models import Session
from tokens.tests.browser import SAME_ORIGIN, Member, by_cookie

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

OPEN: Final = ("/", "/account/signin", "/account/signup", "/account/forgot", "/account/verify-again", "/oauth/device")
STALE: Final = ("/password/reset", "/oauth/reset", "/email/verify", "/account/restore", "/account/invitation")
HOME: Final = "/account/security"
#: For a token that was seen before, which has the name and the language. Rows with two also ask what proves an act.
COUNTS: Final = dict.fromkeys(ROWS, 1) | {"": 8, "name": 0, "email": 2, "identities": 2, "organizations": 2}
MANY: Final = 5


async def count(api: httpx.AsyncClient, statements: list[str], path: str, status: int = 200) -> int:
    """Return how many statements a page takes the second time it is opened."""
    for _ in range(2):
        statements.clear()
        answer = await api.get(path)
        assert answer.status_code == status, (path, answer.status_code)
    return len(statements)


@pytest.mark.parametrize("path", OPEN)
async def test_what_anybody_may_open_asks_nothing(
    api: httpx.AsyncClient, signing_key: Any, statements: list[str], path: str
) -> None:
    """The forms that strangers begin with hold nothing of anybody."""
    assert await count(api, statements, path) == 0


@pytest.mark.parametrize("path", STALE)
async def test_a_guessed_link_asks_nothing(
    api: httpx.AsyncClient, signing_key: Any, statements: list[str], path: str
) -> None:
    """What has not the form of a token of ours is refused before the database is asked."""
    assert await count(api, statements, f"{path}?token=x", 400) == 0


def fill(member: Member) -> None:
    """Let the person have several of everything that a row lists."""
    user, later = User.objects.get(pk=member["id"]), clock.now() + timedelta(days=9)
    for number in range(MANY):
        Consent.objects.create(user=user, client=make_client(name=f"Wiki {number}")[0], scope="openid")
        KeptDevice.objects.create(user=user, digest=f"{number}", epoch=user.session_epoch, expires_at=later)
        provider = UpstreamProvider(
            slug=f"p{number}", name="P", kind="oidc", issuer="https://p.example", client_id="us"
        )
        seal_into(provider, "secret")
        provider.save()
        one = Identity.objects.create(user=user, provider=provider, issuer=provider.issuer, subject=f"{number}")
        KeptTokens.objects.create(
            identity=one, provider=provider, sealed=b"", master_key_id="1", can_refresh=False, kept_at=clock.now()
        )
        acme = Organization.objects.create(name="Acme", slug=f"acme-{number}")
        Membership.objects.create(organization=acme, user=user, role="owner")
        Session.objects.create(
            user=user, epoch=user.session_epoch, amr="pwd", master_key_id="1", idle_expires_at=later,
            absolute_expires_at=later,
        )  # fmt: skip


@pytest.mark.parametrize("many", [False, True])
async def test_rows_of_the_account(
    api: httpx.AsyncClient, member: Member, settings: Settings, statements: list[str], many: bool
) -> None:
    """Each row asks for what it shows, and the overview for what all of them show; as often for many as for none."""
    settings.IRONAUTH_KEEP_DEVICE_DAYS = 30
    settings.IRONAUTH_ORGANIZATIONS = "anybody"
    await by_cookie(api, member)
    api.headers.update(SAME_ORIGIN)
    if many:
        await sync_to_async(fill)(member)
    counts = {slug: await count(api, statements, f"{HOME}/{slug}" if slug else HOME) for slug in ("", *ROWS)}
    assert counts == COUNTS
