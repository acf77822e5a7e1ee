"""The list of roles over HTTP: pages, search and order, at a cost that does not grow with the roles."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group, Permission
from pytest_django import DjangoAssertNumQueries

from accounts.conftest import MakeUser, SignIn
from accounts.staff.roles import units as role_units
from accounts.staff.roles.units import place_of
from ironauth.infrastructure.api.paging import Cursor

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]
ROLES, USERS = "/api/v1/roles", "/api/v1/users"
List = Callable[..., Any]


@pytest.fixture
async def get(api: httpx.AsyncClient, transactional_db: None, make_user: MakeUser, sign_in: SignIn) -> List:
    """Give what a member of staff who may see roles is answered."""
    headers = await sign_in(await sync_to_async(make_user)("auth.view_group", "accounts.view_user"))

    async def fetch(path: str = ROLES, **query: Any) -> httpx.Response:
        return await api.get(path, params=query or None, headers=headers)

    return fetch


def _fill(count: int) -> None:
    """Make roles, each with three permissions."""
    made = Group.objects.bulk_create(Group(name=f"role {n:04}") for n in range(count))
    some = list(Permission.objects.order_by("pk")[:3])
    held = Group.permissions.through
    held.objects.bulk_create(held(group=group, permission=one) for group in made for one in some)


def _names(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [role["name"] for role in answer.json()["results"]]


@pytest.mark.parametrize("ordering", role_units.ORDERINGS)
async def test_pages_lead_through_the_list_and_back(get: List, ordering: str) -> None:
    """Every role is on one page, forwards and backwards, and what comes and goes meanwhile moves no other."""
    await sync_to_async(_fill)(7)
    expected = sorted([f"role {n:04}" for n in range(7)], reverse=ordering.startswith("-"))
    answer = await get(ordering=ordering, page_size=3)
    seen, pages = _names(answer), [_names(answer)]
    assert answer.json()["previous"] is None
    while answer.json()["next"]:
        answer = await get(answer.json()["next"])
        pages.append(_names(answer))
        seen += pages[-1]
    assert (seen, [len(page) for page in pages]) == (expected, [3, 3, 1])
    await Group.objects.filter(name=expected[2]).adelete()
    answer = await get(answer.json()["previous"])
    assert _names(answer) == pages[1]
    answer = await get(answer.json()["previous"])
    assert (_names(answer), answer.json()["previous"]) == (expected[:2], None)


async def test_search_finds_every_word_in_any_case(get: List, make_role: Callable[..., Group]) -> None:
    """All words must occur in the name; wildcards are letters like others, and an empty search finds all."""
    for name in ("Support level 1", "support level 2", "editors", "100%", "\u00c4rzte"):
        await sync_to_async(make_role)(name)
    assert _names(await get(search="LEVEL supp")) == ["Support level 1", "support level 2"]
    assert _names(await get(search="supp 2")) == ["support level 2"]
    assert _names(await get(search="%")) == ["100%"]
    assert _names(await get(search="_")) == []
    assert _names(await get(search="\u00e4RZTE")) == ["\u00c4rzte"]
    assert len(_names(await get(search=""))) == 5
    first = await get(search="support", page_size=1)
    assert _names(await get(first.json()["next"])) == ["support level 2"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ordering", "created_at"),
        ("page_size", "0"),
        ("page_size", "201"),
        ("search", "\x00"),
        ("search", "x" * 151),
        ("cursor", "nonsense"),
        ("cursor", "x" * 3000),
    ],
)
async def test_bad_queries_are_400_naming_the_parameter(get: List, name: str, value: str) -> None:
    """As in the list of users."""
    answer = await get(**{name: value})
    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == [name]


async def test_limits_of_page_and_search_are_let_through(get: List) -> None:
    """The largest page, the longest search."""
    assert _names(await get(page_size=200, search="x" * 150)) == []


async def test_a_cursor_belongs_to_its_list_and_ordering(
    get: List, make_role: Callable[..., Group], make_user: MakeUser
) -> None:
    """People are ordered by name too, and their cursors name other places."""
    for name in ("a", "b"):
        await sync_to_async(make_role)(name)
    page = (await get(page_size=1)).json()
    assert _names(await get(page["next"])) == ["b"]
    assert (await get(f"{page['next']}&ordering=-name")).status_code == 400
    cursor = httpx.URL(page["next"]).params["cursor"]
    assert (await get(USERS, cursor=cursor, ordering="name")).status_code == 400
    await sync_to_async(make_user)()
    theirs = httpx.URL((await get(USERS, page_size=1, ordering="name")).json()["next"])
    assert (await get(cursor=theirs.params["cursor"])).status_code == 400
    nul = Cursor(place_of("name"), "a\x00", role_units._NO_ID, False).encode()
    assert (await get(cursor=nul)).status_code == 400


@pytest.mark.parametrize("count", [10, 1_000])
def test_a_page_costs_two_queries(
    transactional_db: None, django_assert_num_queries: DjangoAssertNumQueries, count: int
) -> None:
    """However many roles there are, at the beginning, in the middle and at the end."""
    _fill(count)
    filters = {"ordering": "name", "page_size": count // 10}
    with django_assert_num_queries(2):
        page = role_units.page(filters)
    assert all(len(role.permissions) == 3 for role in page.rows)
    with django_assert_num_queries(2):
        page = role_units.page({**filters, "cursor": page.next, "search": "role"})
    assert page.rows[0].name == f"role {count // 10:04}"
    with django_assert_num_queries(2):
        assert len(role_units.page({**filters, "ordering": "-name", "page_size": 200}).rows) == min(count, 200)
