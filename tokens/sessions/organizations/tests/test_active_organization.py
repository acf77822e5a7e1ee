"""The organization that a session acts for: who may choose it, what tokens say of it, and how its use ends."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.organizations import units as organizations
from accounts.organizations.models import Membership, Organization
from accounts.users.models import User
from conftest import bearer
from ironauth.infrastructure.cache import invalidation
from ironauth.infrastructure.cache.invalidation import InvalidationFeed, invalidation_feed
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.db.unit_of_work import database
from tokens.access import codec
from tokens.access.codec import AccessClaims
from tokens.sessions import queries as session_queries
from tokens.sessions.models import Session
from tokens.sessions.organizations import queries as organization_queries
from tokens.tests.browser import ME, REFRESH, SAME_ORIGIN, VERIFY, Member, Pair, by_cookie

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

OTHER = "other-owner@example.com"


@pytest.fixture
async def feed() -> AsyncIterator[InvalidationFeed]:
    """The process's feed, running on the test's loop."""
    running = invalidation_feed()
    await running.start()
    yield running
    await running.stop()


async def joined(member: Member, role: str = "member", slug: str = "acme") -> Organization:
    """Return an organization of somebody else's that the member belongs to."""
    owner, _ = await User.objects.aget_or_create(email=OTHER, email_key=OTHER, defaults={"password": ""})
    made = await Organization.objects.acreate(name=slug.title(), slug=slug)
    await Membership.objects.acreate(organization=made, user_id=owner.pk, role="owner")
    await Membership.objects.acreate(organization=made, user_id=member["id"], role=role)
    return made


async def refreshed(api: httpx.AsyncClient, pair: Pair, **members: Any) -> httpx.Response:
    """Refresh by the pair's refresh token."""
    return await api.post(REFRESH, json={"refresh_token": pair["refresh_token"], **members})


async def chosen(api: httpx.AsyncClient, pair: Pair, organization: Any) -> Pair:
    """Return the next pair, whose session acts for the organization."""
    answer = await refreshed(api, pair, organization=str(organization))
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def claims_of(pair: Pair) -> AccessClaims:
    """Return what the pair's access token says."""
    return codec.claims_of(pair["access_token"])


def told(pair: Pair) -> tuple[uuid.UUID | None, tuple[str, ...]]:
    """Return what the access token says of an organization."""
    claims = claims_of(pair)
    return claims.org_id, claims.org_roles


async def status(api: httpx.AsyncClient, pair: Pair) -> int:
    """Return what /me answers."""
    return (await api.get(ME, headers=bearer(pair))).status_code


@pytest.mark.parametrize("by", ["pk", "slug"])
async def test_chosen_and_kept(api: httpx.AsyncClient, member: Member, pair: Pair, by: str) -> None:
    """A refresh names an organization by id or slug; the session keeps it, and each token says it, until another."""
    acme, bolt = await joined(member), await joined(member, role="admin", slug="bolt")
    assert told(pair) == (None, ())
    first = await chosen(api, pair, getattr(acme, by))
    assert told(first) == (acme.pk, ("member",))
    kept = dict((await refreshed(api, first)).json())
    assert told(kept) == (acme.pk, ("member",))
    other = await chosen(api, kept, getattr(bolt, by))
    assert told(other) == (bolt.pk, ("admin",))
    assert told(await chosen(api, other, "")) == (None, ())
    assert (await Session.objects.aget(pk=pair["session_id"])).organization_id is None


@pytest.mark.parametrize("name", ["nobody", "ACME-2", "a" * 65, "x\x00", "{foreign}", "{foreign_slug}", " "])
async def test_not_of_strangers(api: httpx.AsyncClient, member: Member, pair: Pair, name: str) -> None:
    """One that is another's is refused as one that there is not, at the field; session and refresh token stay good."""
    owner = await User.objects.acreate(email=OTHER, email_key=OTHER, password="")
    foreign = await Organization.objects.acreate(name="Foreign", slug="foreign")
    await Membership.objects.acreate(organization=foreign, user_id=owner.pk, role="owner")
    await joined(member)
    answer = await refreshed(api, pair, organization=name.format(foreign=foreign.pk, foreign_slug=foreign.slug))
    assert answer.status_code == 400
    assert [(one["field"], one["code"]) for one in answer.json()["errors"]] == [("organization", "not_a_member")]
    assert told(await chosen(api, pair, "acme"))[1] == ("member",)


@pytest.mark.parametrize("value", [1, [], {}, True])
async def test_no_text(api: httpx.AsyncClient, pair: Pair, value: Any) -> None:
    """Anything but a text, or nothing, is refused."""
    assert (await refreshed(api, pair, organization=value)).status_code == 400
    assert (await refreshed(api, pair, organization=None)).status_code == 200


async def test_a_slug_like_an_id_names_nothing(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """Who asks for an id gets that one or none: nobody slips in an organization whose short name is that id."""
    wanted = uuid.uuid4()
    await joined(member, slug=str(wanted))
    assert (await refreshed(api, pair, organization=str(wanted))).status_code == 400


async def test_off(api: httpx.AsyncClient, member: Member, pair: Pair, settings: Settings) -> None:
    """Where there are no organizations nobody chooses one, and sessions that had one get tokens without."""
    acme = await joined(member)
    first = await chosen(api, pair, acme.pk)
    settings.IRONAUTH_ORGANIZATIONS = "off"
    answer = await refreshed(api, first, organization="acme")
    assert answer.status_code == 400
    assert told(dict((await refreshed(api, first)).json())) == (None, ())


async def test_by_cookie(api: httpx.AsyncClient, member: Member) -> None:
    """A browser chooses with its cookies, and only from this site."""
    acme = await joined(member)
    await by_cookie(api, member)
    assert (await api.post(REFRESH, json={"organization": "acme"}, headers=SAME_ORIGIN)).status_code == 204
    answer = await api.get(VERIFY, headers=SAME_ORIGIN)
    assert answer.headers["x-auth-organization"] == str(acme.pk)
    refused = await api.post(REFRESH, json={"organization": ""}, headers={"Sec-Fetch-Site": "cross-site"})
    assert refused.status_code == 403


async def test_of_another_one_ends(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """After a switch tokens of the organization before are refused; those that name none go on."""
    acme, bolt = await joined(member), await joined(member, slug="bolt")
    first = await chosen(api, pair, acme.pk)
    assert await status(api, first) == 200
    second = await chosen(api, first, bolt.pk)
    assert [await status(api, one) for one in (pair, first, second)] == [200, 401, 200]
    token_cache().clear()
    assert [await status(api, one) for one in (pair, first, second)] == [200, 401, 200]


async def _remove(acme: Organization, member: Member, owner_id: uuid.UUID) -> None:
    await database().write(
        organizations.remove_member, actor_id=owner_id, organization_id=acme.pk, user_id=uuid.UUID(member["id"])
    )


async def _other_role(acme: Organization, member: Member, owner_id: uuid.UUID) -> None:
    await database().write(
        organizations.set_role,
        actor_id=owner_id,
        organization_id=acme.pk,
        user_id=uuid.UUID(member["id"]),
        role="admin",
    )


async def _leave(acme: Organization, member: Member, owner_id: uuid.UUID) -> None:
    await database().write(organizations.leave, user_id=uuid.UUID(member["id"]), organization_id=acme.pk)


async def _delete(acme: Organization, member: Member, owner_id: uuid.UUID) -> None:
    await database().write(organizations.delete_organization, actor_id=owner_id, organization_id=acme.pk)


CHANGES = [_remove, _other_role, _leave, _delete]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_it_is_taken_out(
    api: httpx.AsyncClient,
    member: Member,
    pair: Pair,
    feed: InvalidationFeed,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[..., Awaitable[None]],
    elsewhere: bool,
) -> None:
    """A lost membership, another role and a deletion end the use of tokens, in another worker once its feed has read.

    The session goes on without the organization: its next token names none, until somebody chooses again.
    """
    acme = await joined(member)
    first = await chosen(api, pair, acme.pk)
    assert await status(api, first) == 200
    owner = await User.objects.aget(email_key=OTHER)
    if elsewhere:  # as if another process had committed it: this one hears of it by the table alone
        monkeypatch.setattr(invalidation, "_committed", lambda ids: None)
    await change(acme, member, owner.pk)
    if elsewhere:
        assert await status(api, first) == 200  # not yet
        await feed.poll()
    assert await status(api, first) == 401
    assert (await Session.objects.aget(pk=pair["session_id"])).organization_id is None
    after = dict((await refreshed(api, first)).json())
    assert told(after) == (None, ())
    assert await status(api, after) == 200


async def test_the_row_decides(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """A membership that goes without a word is out all the same: tokens are made and confirmed by the row itself."""
    acme = await joined(member)
    first = await chosen(api, pair, acme.pk)
    await sync_to_async(Membership.objects.filter(organization=acme, user_id=member["id"])._raw_delete)("default")
    token_cache().clear()
    assert await status(api, first) == 401
    assert told(dict((await refreshed(api, first)).json())) == (None, ())


async def test_the_role_of_the_token_is_confirmed(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """A token that says another role than the person has by now is refused, also where they have chosen again."""
    acme = await joined(member)
    first = await chosen(api, pair, acme.pk)
    owner = await User.objects.aget(email_key=OTHER)
    await _other_role(acme, member, owner.pk)
    again = await chosen(api, first, acme.pk)
    assert told(again) == (acme.pk, ("admin",))
    token_cache().clear()
    assert [await status(api, one) for one in (first, again)] == [401, 200]


async def test_staff_who_act_choose_none(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """A session in which staff act as the person acts for no organization, chosen before or now."""
    acme = await joined(member)
    await chosen(api, pair, acme.pk)
    staff = await User.objects.acreate(
        email="staff@example.com", email_key="staff@example.com", password="", is_superuser=True, is_staff=True
    )
    await Session.objects.filter(pk=pair["session_id"]).aupdate(actor_id=staff.pk, actor_epoch=staff.session_epoch)
    stored = await database().read(session_queries.find, uuid.UUID(pair["session_id"]))
    assert stored is not None
    assert stored.organization_id == acme.pk
    assert await database().read(organization_queries.of_session, stored) is None


async def test_nothing_more_is_asked(api: httpx.AsyncClient, member: Member, pair: Pair, statements: list[str]) -> None:
    """Without an organization a refresh takes its two statements, with one a third; a switch three more: frozen."""
    acme = await joined(member)
    counts = []
    plain = dict((await refreshed(api, pair)).json())
    for members in ({}, {"organization": acme.slug}, {}, {"organization": acme.slug}, {"organization": ""}):
        statements.clear()
        answer = await refreshed(api, plain, **members)
        counts.append(len(statements))
        plain = dict(answer.json())
    assert counts == [2, 6, 3, 4, 4]
    assert not {"org_id", "org_roles"} & codec.payload_of(pair["access_token"]).keys()
