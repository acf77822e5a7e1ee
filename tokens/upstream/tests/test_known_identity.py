"""A sign-in that changes nothing but when the identity was used: which these are, and what is noted."""

from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import transaction

from accounts.federation import queries, units
from accounts.federation.kinds.kind import UpstreamPerson
from accounts.federation.models import Identity, UpstreamProvider
from accounts.users.models import User
from tokens.tests.browser import Member, Pair
from tokens.tests.second_factor import enrol
from tokens.upstream.tests.provider import FakeProvider
from tokens.upstream.tests.walk import is_in, stored, through

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]


@pytest.fixture
async def identity(member: Member, provider: FakeProvider) -> Identity:
    """The member's identity at the provider."""
    user, row = await User.objects.aget(pk=member["id"]), await UpstreamProvider.objects.aget()
    return await Identity.objects.acreate(user=user, provider=row, issuer=provider.issuer, subject="subject-1")


def looked_up(provider: FakeProvider, **changes: Any) -> units.Resolved | None:
    """Return what the look-up finds for the member's identity, or for one with other words."""
    told = {"issuer": provider.issuer, "subject": "subject-1", "email": "ann@example.com", **changes}
    return units.known(provider_id=UpstreamProvider.objects.get(slug="acme").pk, person=UpstreamPerson(**told))


def uses(found: units.Resolved | None) -> bool:
    """Note the use of what was found, as the session's unit of work does; tell whether it could be."""
    assert found is not None
    assert found.account is not None
    assert found.identity_id is not None
    with transaction.atomic():
        return queries.sign_in(identity_id=found.identity_id, user_id=found.account.id, email="")


@sync_to_async
def judged(provider: FakeProvider, member: Member, identity: Identity) -> None:
    """Change one thing after the other, and look it up each time."""
    found = looked_up(provider)
    assert found is not None
    assert found.account is not None
    assert (str(found.account.id), found.account.email) == (member["id"], member["email"])
    assert (found.identity_id, found.provider_id, found.step) == (identity.pk, identity.provider_id, None)
    assert looked_up(provider, subject="subject-2") is None
    assert looked_up(provider, issuer="https://another.example") is None
    user, row = User.objects.filter(pk=member["id"]), UpstreamProvider.objects.filter(slug="acme")
    for query, change, back in (
        (row, {"enabled": False}, {"enabled": True}),
        (row, {"updates_name": True}, {"updates_name": False}),
        (user, {"is_active": False}, {"is_active": True}),
    ):
        query.update(**change)
        assert looked_up(provider) is None, change
        query.update(**back)
        assert looked_up(provider) is not None, change


async def test_which_these_are(member: Member, provider: FakeProvider, identity: Identity) -> None:
    """A known identity of an active account; not of a provider that is off, or that says how people are called."""
    await judged(provider, member, identity)


async def test_a_second_factor_is_asked_the_long_way(
    api: httpx.AsyncClient, member: Member, pair: Pair, provider: FakeProvider, identity: Identity
) -> None:
    """Then no session opens in which the use could be noted: it is noted before the factor is asked for."""
    await enrol(api, pair)
    assert await sync_to_async(looked_up)(provider) is None
    assert "One more step" in (await through(api, provider)).text
    after = await Identity.objects.aget()
    assert after.last_used_at > identity.last_used_at


async def test_the_use_is_noted(api: httpx.AsyncClient, provider: FakeProvider, identity: Identity) -> None:
    """The time, and the address that the provider says now; one that cannot be shown becomes nothing."""
    for said, kept in (("new@example.com", "new@example.com"), ("a\u0000b@example.com", "")):
        provider.claims["email"] = said
        assert is_in(await through(api, provider))
        after = await Identity.objects.aget()
        assert after.email == kept
        assert after.last_used_at > identity.last_used_at
        api.cookies.clear()


async def test_another_provider_of_the_issuer(
    api: httpx.AsyncClient, member: Member, provider: FakeProvider, identity: Identity
) -> None:
    """Asked is one that is on, the identity is of one that was switched off: nobody gets in."""
    await sync_to_async(stored)("again", provider.issuer)
    await UpstreamProvider.objects.filter(slug="acme").aupdate(enabled=False)

    @sync_to_async
    def opens() -> bool:
        again = UpstreamProvider.objects.get(slug="again")
        return uses(units.known(provider_id=again.pk, person=UpstreamPerson(provider.issuer, "subject-1", "")))

    assert await opens() is False
    await UpstreamProvider.objects.filter(slug="acme").aupdate(enabled=True)
    assert await opens() is True
