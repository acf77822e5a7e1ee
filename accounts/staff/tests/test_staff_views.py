"""The staff API over HTTP: rights, search, paging, and no way to gain rights one does not hold."""

import asyncio
import uuid
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from pytest_django import DjangoAssertNumQueries

from accounts.access.rights import rights_of
from accounts.conftest import PASSWORD, MakeUser, SignIn
from accounts.outbox.models import OutgoingMail
from accounts.passwords import hashing as passwords
from accounts.staff import units as staff_units
from accounts.staff.roles import units as role_units
from accounts.users.models import User
from accounts.users.outputs import UserOut

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]
USERS, ROLES, ME = "/api/v1/users", "/api/v1/roles", "/api/v1/access/me"
VIEW, ADD, CHANGE, DELETE = (f"accounts.{verb}_user" for verb in ("view", "add", "change", "delete"))
Client = Callable[..., Any]


@pytest.fixture
def make(transactional_db: None, make_user: MakeUser) -> Callable[..., Any]:
    """Give an async maker of users."""
    return sync_to_async(make_user)


@pytest.fixture
def role(transactional_db: None, make_role: Callable[..., Group]) -> Callable[..., Any]:
    """Give an async maker of roles."""
    return sync_to_async(make_role)


@pytest.fixture
async def enter(api: httpx.AsyncClient, sign_in: SignIn) -> Callable[..., Any]:
    """Give a maker of HTTP clients signed in as a user."""

    async def as_user(user: User) -> Callable[..., Any]:
        headers = await sign_in(user)

        async def call(method: str, path: str, json: Any = None, **options: Any) -> httpx.Response:
            return await api.request(method, path, json=json, headers=headers, **options)

        return call

    return as_user


def _codes(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


async def test_every_operation_needs_its_own_right(
    make: Callable[..., Any], enter: Callable[..., Any], role: Callable[..., Any]
) -> None:
    """Each method is refused without its permission, with 403 naming it, and let through with it."""
    target = await make()
    await role("plain")
    operations = [
        ("GET", USERS, None, VIEW, 200),
        ("GET", f"{USERS}/{target.pk}", None, VIEW, 200),
        ("HEAD", USERS, None, VIEW, 200),
        ("POST", USERS, {"email": "new@example.com"}, ADD, 201),
        ("PATCH", f"{USERS}/{target.pk}", {"name": "New"}, CHANGE, 200),
        ("PUT", f"{USERS}/{target.pk}/roles/plain", None, CHANGE, 204),
        ("DELETE", f"{USERS}/{target.pk}/roles/plain", None, CHANGE, 204),
        ("GET", ROLES, None, "auth.view_group", 200),
        ("POST", ROLES, {"name": "new"}, "auth.add_group", 201),
        ("GET", "/api/v1/audit", None, "accounts.view_auditevent", 200),
        ("GET", "/api/v1/audit/export?format=csv", None, "accounts.view_auditevent", 200),
        ("DELETE", f"{USERS}/{target.pk}", None, DELETE, 204),
    ]
    everything = {VIEW, ADD, CHANGE, DELETE, "auth.view_group", "auth.add_group", "accounts.view_auditevent"}
    for method, path, body, right, status in operations:
        refused = await (await enter(await make(*(everything - {right}), is_staff=True)))(method, path, body)
        assert refused.status_code == 403, (method, path)
        if method != "HEAD":
            assert right in refused.json()["detail"]
        allowed = await (await enter(await make(right)))(method, path, body)
        assert allowed.status_code == status, (method, path, allowed.text)


async def test_strangers_get_401_and_ordinary_people_403(
    api: httpx.AsyncClient, make: Callable[..., Any], enter: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither learns whether a user or a role exists, not by time either: nothing is looked up or hashed for them."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("somebody without rights had something done")

    member = await enter(await make())
    for path in (USERS, f"{USERS}/{uuid.uuid4()}", ROLES):
        assert (await api.get(path)).status_code == 401
        assert (await member("GET", path)).status_code == 403
    known = await make()
    monkeypatch.setattr(staff_units, "require_roles", never)
    monkeypatch.setattr(role_units, "require_permissions", never)
    monkeypatch.setattr(passwords, "hash_password", never)
    for method, path, body in [
        ("POST", USERS, {"email": "not even valid"}),
        ("POST", USERS, {"email": known.email}),
        ("POST", USERS, {"email": known.email, "password": PASSWORD}),
        ("POST", USERS, {"email": "new@example.com", "roles": ["no such"]}),
        ("POST", USERS, {"email": "bad", "roles": ["no such"]}),
        ("POST", USERS, ["no object"]),
        ("GET", f"{USERS}?page_size=0", None),
        ("GET", f"{USERS}?cursor=x", None),
        ("PATCH", f"{USERS}/{known.pk}", {"name": 5}),
        ("PATCH", f"{USERS}/{uuid.uuid4()}", {"name": "x"}),
        ("DELETE", f"{USERS}/{uuid.uuid4()}", None),
        ("PUT", f"{USERS}/{known.pk}/roles/none", None),
        ("POST", ROLES, {"name": "a/b", "permissions": ["x"]}),
    ]:
        answer = await member(method, path, body)
        assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied"), (method, path, body)
    raw = await api.post(USERS, content=b"{", headers={"Content-Type": "text/plain"})
    assert raw.status_code == 401


async def test_rights_are_read_from_the_database_at_every_request(
    make: Callable[..., Any], enter: Callable[..., Any], role: Callable[..., Any]
) -> None:
    """A right that comes by a role or goes with it counts with the next request; no token has to be renewed."""
    staff, viewers = await make(), await role("viewers", VIEW)
    call = await enter(staff)
    assert (await call("GET", USERS)).status_code == 403
    await sync_to_async(staff.groups.add)(viewers)
    assert (await call("GET", USERS)).status_code == 200
    await sync_to_async(viewers.permissions.clear)()
    assert (await call("GET", USERS)).status_code == 403


async def test_create_with_and_without_password(
    api: httpx.AsyncClient, make: Callable[..., Any], enter: Callable[..., Any], role: Callable[..., Any]
) -> None:
    """A password makes an account that signs in; without one nobody can sign in, with anything."""
    await role("editors")
    call = await enter(await make(is_superuser=True))
    body = {
        "email": "New@Example.com",
        "password": PASSWORD,
        "name": "New",
        "preferred_username": "new",
        "family_name": "Person",
        "zoneinfo": "Europe/Berlin",
        "roles": ["editors"],
        "email_verified": True,
    }
    created = await call("POST", USERS, body)
    assert created.status_code == 201
    assert created.json() | {"id": "", "created_at": "", "updated_at": ""} == {
        "id": "", "email": "New@Example.com", "name": "New", "is_active": True, "is_staff": False,
        "is_superuser": False, "email_verified": True, "roles": ["editors"], "created_at": "",
        "preferred_username": "new", "given_name": "", "family_name": "Person", "zoneinfo": "Europe/Berlin",
        "locale": "", "updated_at": "",
    }  # fmt: skip
    assert (await call("GET", created.headers["location"])).json() == created.json()
    signed_in = await api.post("/api/v1/access/signin", json={"email": "new@example.com", "password": PASSWORD})
    assert signed_in.status_code == 200
    bare = await call("POST", USERS, {"email": "bare@example.com"})
    assert bare.status_code == 201
    assert not (await User.objects.aget(pk=bare.json()["id"])).has_usable_password()
    for password in ("", "!", "None"):
        answer = await api.post("/api/v1/access/signin", json={"email": "bare@example.com", "password": password})
        assert answer.status_code in (400, 401)


async def test_create_refuses_bad_input(make: Callable[..., Any], enter: Callable[..., Any]) -> None:
    """Every bad field is named; a taken address is 409, also under another case; unknown roles are named."""
    call = await enter(await make(is_superuser=True, email="root@example.com"))
    bad = {
        "email": "x",
        "password": "short",
        "name": "\x00",
        "is_active": "maybe",
        "roles": "editors",
        "is_staff": None,
    }
    answer = await call("POST", USERS, bad)
    assert {error["field"] for error in answer.json()["errors"]} == set(bad)
    assert _codes(await call("POST", USERS, {"email": "ROOT@example.com"})) == (409, "email_taken")
    unknown = await call("POST", USERS, {"email": "a@example.com", "roles": ["no", "nul\x00", "such"]})
    assert unknown.status_code == 400
    assert [error["code"] for error in unknown.json()["errors"]] == ["unknown_role"] * 3
    assert await User.objects.acount() == 1


async def test_patch_changes_what_is_sent(
    make: Callable[..., Any], enter: Callable[..., Any], role: Callable[..., Any]
) -> None:
    """Fields that are absent stay; roles are replaced; unknown fields are ignored; an empty body changes nothing."""
    for name in ("a", "b", "c"):
        await role(name)
    call, target = await enter(await make(is_superuser=True)), await make(name="Old", email="old@example.com")
    path = f"{USERS}/{target.pk}"
    assert (await call("PATCH", path, {"name": "New", "roles": ["b", "a"]})).json()["roles"] == ["a", "b"]
    changed = (await call("PATCH", path, {"email": "New@example.com", "roles": ["c"], "email_verified": True})).json()
    assert (changed["name"], changed["email"], changed["roles"]) == ("New", "New@example.com", ["c"])
    assert changed["email_verified"]
    assert (await call("PATCH", path, {"email": "other@example.com"})).json()["email_verified"] is False
    same = await call("PATCH", path, {"id": str(uuid.uuid4()), "session_epoch": 5, "password": "ignored"})
    assert same.status_code == 200
    after = await User.objects.aget(pk=target.pk)
    assert (after.session_epoch, after.password) == (0, target.password)
    assert (await call("PATCH", f"{USERS}/{uuid.uuid4()}", {})).status_code == 404
    assert (await call("PATCH", path, {"roles": ["missing"]})).status_code == 400
    assert (await call("PATCH", path, {"name": None, "is_active": "?"})).status_code == 400


async def test_the_old_address_is_told(make: Callable[..., Any], enter: Callable[..., Any]) -> None:
    """Anybody who loses an account to a mistake, or to a thief among staff, hears of it; of a change of case nobody."""
    call, target = await enter(await make(is_superuser=True)), await make(email="old@example.com")
    path = f"{USERS}/{target.pk}"
    for email in ("Old@example.com", "new@example.com"):
        assert (await call("PATCH", path, {"email": email, "name": "New"})).json()["email"] == email
    sent = [(mail.kind, mail.recipient, mail.user_id) async for mail in OutgoingMail.objects.all()]
    assert sent == [("email_changed", "Old@example.com", target.pk)]
    assert (await call("PATCH", path, {"email": (await make()).email})).status_code == 409
    assert await OutgoingMail.objects.acount() == 1


async def test_address_race_between_two_patches(make: Callable[..., Any], enter: Callable[..., Any]) -> None:
    """Of two people given the same address at once, one gets it and the other is 409."""
    call, one, other = await enter(await make(is_superuser=True)), await make(), await make()
    answers = await asyncio.gather(
        *(call("PATCH", f"{USERS}/{user.pk}", {"email": "wanted@example.com"}) for user in (one, other))
    )
    assert sorted(answer.status_code for answer in answers) == [200, 409]


async def test_deactivation_and_deletion_end_access_at_once(
    api: httpx.AsyncClient, make: Callable[..., Any], enter: Callable[..., Any]
) -> None:
    """The person's next request is refused, and reactivation revives no session."""
    root, target, doomed = await enter(await make(is_superuser=True)), await make(), await make()
    call, last_call = await enter(target), await enter(doomed)
    assert (await call("GET", ME)).status_code == 200
    assert (await root("PATCH", f"{USERS}/{target.pk}", {"is_active": False})).json()["is_active"] is False
    assert (await call("GET", ME)).status_code == 401
    await root("PATCH", f"{USERS}/{target.pk}", {"is_active": True})
    assert (await call("GET", ME)).status_code == 401
    assert (await last_call("GET", ME)).status_code == 200
    assert (await root("DELETE", f"{USERS}/{doomed.pk}")).status_code == 204
    assert (await last_call("GET", ME)).status_code == 401
    assert (await root("GET", f"{USERS}/{doomed.pk}")).status_code == 404


async def test_role_change_is_visible_at_once(
    make: Callable[..., Any], enter: Callable[..., Any], role: Callable[..., Any]
) -> None:
    """/me shows a role given or taken with the next request; giving and taking twice is no error."""
    await role("editors")
    root, target = await enter(await make(is_superuser=True)), await make()
    call, path = await enter(target), f"{USERS}/{target.pk}/roles/editors"
    for method, roles in (("PUT", ["editors"]), ("PUT", ["editors"]), ("DELETE", []), ("DELETE", [])):
        assert (await root(method, path)).status_code == 204
        assert (await call("GET", ME)).json()["roles"] == roles
    for missing in (
        f"{USERS}/{target.pk}/roles/none",
        f"{USERS}/{uuid.uuid4()}/roles/editors",
        f"{USERS}/{target.pk}/roles/a%00b",
    ):
        assert (await root("PUT", missing)).status_code == 404


async def test_nobody_gains_rights_they_do_not_hold(
    make: Callable[..., Any], enter: Callable[..., Any], role: Callable[..., Any]
) -> None:
    """Without being a superuser: no staff, no superusers, no role or permission beyond one's own, no taking over."""
    await role("viewers", VIEW)
    await role("keepers", "tokens.view_signingkey")
    manager = await make(VIEW, ADD, CHANGE, DELETE, "auth.add_group", is_staff=True)
    root, keeper, plain = await make(is_superuser=True), await make("tokens.view_signingkey"), await make()
    call = await enter(manager)
    attempts = [
        ("POST", USERS, {"email": "a@example.com", "is_staff": True}),
        ("POST", USERS, {"email": "a@example.com", "is_superuser": True}),
        ("POST", USERS, {"email": "a@example.com", "roles": ["keepers"]}),
        ("PATCH", f"{USERS}/{manager.pk}", {"is_superuser": True}),
        ("PATCH", f"{USERS}/{plain.pk}", {"is_staff": True}),
        ("PATCH", f"{USERS}/{manager.pk}", {"roles": ["keepers"]}),
        ("PUT", f"{USERS}/{manager.pk}/roles/keepers", None),
        ("PATCH", f"{USERS}/{root.pk}", {"name": "New"}),
        ("PATCH", f"{USERS}/{root.pk}", {"is_active": False}),
        ("PUT", f"{USERS}/{root.pk}/roles/viewers", None),
        ("DELETE", f"{USERS}/{root.pk}/roles/viewers", None),
        ("DELETE", f"{USERS}/{root.pk}", None),
        ("PATCH", f"{USERS}/{keeper.pk}", {"email": "mine@example.com"}),
        ("POST", ROLES, {"name": "more", "permissions": ["tokens.view_signingkey"]}),
    ]
    for method, path, body in attempts:
        assert _codes(await call(method, path, body)) == (403, "permission_denied"), (method, path, body)
    assert await Group.objects.acount() == 2
    assert not await User.objects.exclude(pk=root.pk).filter(is_superuser=True).aexists()
    # What is not an escalation stays possible.
    assert (await call("PUT", f"{USERS}/{plain.pk}/roles/viewers")).status_code == 204
    assert (await call("PATCH", f"{USERS}/{keeper.pk}", {"is_active": False})).status_code == 200
    assert (await call("PATCH", f"{USERS}/{plain.pk}", {"email": "fine@example.com"})).status_code == 200
    assert (await call("POST", ROLES, {"name": "fewer", "permissions": [VIEW]})).status_code == 201


async def test_a_deactivated_mightier_account_cannot_be_taken_over(
    make: Callable[..., Any], enter: Callable[..., Any], role: Callable[..., Any]
) -> None:
    """Staff may stop anybody but superusers; letting in, address, roles and deletion need the person's own rights."""
    call = await enter(await make("accounts.view_user", "accounts.change_user", "accounts.delete_user"))
    await role("keys", "tokens.view_signingkey")
    keeper = await make("tokens.view_signingkey")
    path = f"{USERS}/{keeper.pk}"
    assert (await call("PATCH", path, {"is_active": False})).status_code == 200
    for body in ({"email": "thief@example.com"}, {"is_active": True}, {"email": "t@example.com", "is_active": True}):
        assert (await call("PATCH", path, body)).status_code == 403
    assert (await call("DELETE", path)).status_code == 403
    assert (await call("PUT", f"{path}/roles/keys")).status_code == 403
    assert (await call("DELETE", f"{path}/roles/keys")).status_code == 403
    assert not (await User.objects.aget(pk=keeper.pk)).is_active


async def test_last_superuser_stays(make: Callable[..., Any], enter: Callable[..., Any]) -> None:
    """Nobody, not even oneself, can deactivate, demote or delete the last active superuser."""
    root = await make(is_superuser=True)
    call, path = await enter(root), f"{USERS}/{root.pk}"
    for method, body in (("PATCH", {"is_active": False}), ("PATCH", {"is_superuser": False}), ("DELETE", None)):
        assert _codes(await call(method, path, body)) == (409, "last_superuser")
    second = await make(is_superuser=True)
    assert (await call("PATCH", f"{USERS}/{second.pk}", {"is_superuser": False})).status_code == 200


async def test_staff_do_not_lock_themselves_out(make: Callable[..., Any], enter: Callable[..., Any]) -> None:
    """Deactivating or deleting oneself is for a colleague, or for /me with the password; others can be."""
    staff, other = await make(CHANGE, DELETE, is_staff=True), await make()
    call = await enter(staff)
    for method, body in (("PATCH", {"is_active": False}), ("DELETE", None)):
        assert _codes(await call(method, f"{USERS}/{staff.pk}", body)) == (403, "permission_denied")
        assert (await call(method, f"{USERS}/{other.pk}", body)).status_code in {200, 204}
    assert (await call("PATCH", f"{USERS}/{staff.pk}", {"name": "Still here", "is_active": True})).status_code == 200


async def test_unknown_roles_are_named_beside_other_errors(
    make: Callable[..., Any], enter: Callable[..., Any], role: Callable[..., Any]
) -> None:
    """Every bad field at once, also those only the database knows to be bad."""
    await role("real")
    target = await make()
    call = await enter(await make(is_superuser=True))
    for method, path, body, fields in (
        ("POST", USERS, {"email": "bad", "roles": ["nope", "real"]}, {"email", "roles"}),
        ("POST", USERS, {"email": "bad", "roles": ["real"]}, {"email"}),
        ("POST", USERS, {"email": "bad", "roles": "nope"}, {"email", "roles"}),
        ("PATCH", f"{USERS}/{target.pk}", {"email": "bad", "roles": ["nope"]}, {"email", "roles"}),
        ("POST", ROLES, {"name": "a/b", "permissions": ["accounts.nope", VIEW]}, {"name", "permissions"}),
        ("POST", ROLES, {"name": "r", "permissions": ["nosuch", "x.y"]}, {"permissions.0", "permissions"}),
        ("POST", USERS, {"email": "bad", "roles": [5, "nosuch"]}, {"email", "roles.0", "roles"}),
    ):
        answer = await call(method, path, body)
        assert answer.status_code == 400
        assert {error["field"] for error in answer.json()["errors"]} == fields
    for query, fields in (("page_size=q", {"page_size"}), ("ordering=zz", {"ordering"})):
        answer = await call("GET", f"{USERS}?cursor=x&{query}")
        assert {error["field"] for error in answer.json()["errors"]} == {"cursor", *fields}


async def test_two_superusers_cannot_remove_each_other_at_once(
    make: Callable[..., Any], enter: Callable[..., Any]
) -> None:
    """Of two simultaneous removals one fails: somebody remains."""
    for _ in range(5):
        await User.objects.all().adelete()
        one, other = await make(is_superuser=True), await make(is_superuser=True)
        call_one, call_other = await enter(one), await enter(other)
        await asyncio.gather(
            call_one("DELETE", f"{USERS}/{other.pk}"), call_other("PATCH", f"{USERS}/{one.pk}", {"is_active": False})
        )
        assert await User.objects.filter(is_superuser=True, is_active=True).acount() == 1


async def test_list_pages_through_everyone_once(make: Callable[..., Any], enter: Callable[..., Any]) -> None:
    """Following ``next`` shows every user exactly once in order, ``previous`` leads back over the same pages."""
    call = await enter(await make(is_superuser=True, email="root@example.com", name="Root"))
    await User.objects.abulk_create(
        [User(email=f"user{n:02}@example.com", name=f"Name {n % 4}", password="!") for n in range(24)]
    )
    for ordering in ("created_at", "-created_at", "email", "-email", "name", "-name"):
        key = ordering.lstrip("-")
        pages, url = [], f"{USERS}?ordering={ordering}&page_size=7"
        while url:
            page = (await call("GET", url)).json()
            assert set(page) == {"results", "next", "previous"}
            pages.append(page)
            url = page["next"]
        rows = [row for page in pages for row in page["results"]]
        assert [len(page["results"]) for page in pages] == [7, 7, 7, 4]
        assert len({row["id"] for row in rows}) == 25
        assert [row[key] for row in rows] == sorted((row[key] for row in rows), reverse=ordering.startswith("-"))
        assert pages[0]["previous"] is None
        for before, page in pairwise(pages):
            assert (await call("GET", page["previous"])).json()["results"] == before["results"]


async def test_paging_is_steady_while_people_sign_up(make: Callable[..., Any], enter: Callable[..., Any]) -> None:
    """A sign-up between two pages neither repeats nor skips a row."""
    call = await enter(await make(is_superuser=True))
    await User.objects.abulk_create([User(email=f"u{n}@example.com", password="!") for n in range(9)])
    first = (await call("GET", f"{USERS}?page_size=5")).json()
    await make()
    second = (await call("GET", first["next"])).json()
    ids = [row["id"] for row in first["results"] + second["results"]]
    assert len(ids) == len(set(ids)) == 10


async def test_search_and_filters(
    make: Callable[..., Any], enter: Callable[..., Any], role: Callable[..., Any]
) -> None:
    """Search looks at address and name without regard to case; filters combine; nothing found is an empty page."""
    call = await enter(await make(is_superuser=True, email="root@example.com", name="Root"))
    editors = await role("editors")
    alice = await make(email="Alice@Wonderland.example", name="Alice Liddell")
    carla = await make(email="carla@example.com", name="Carla M\u00fcller")
    bob = await make(email="bob@example.com", name="Bob 100%", is_active=False, is_staff=True)
    await sync_to_async(alice.groups.add)(editors)

    async def found(query: str) -> set[str]:
        answer = await call("GET", f"{USERS}?{query}")
        assert answer.status_code == 200, answer.text
        return {row["email"] for row in answer.json()["results"]}

    assert await found("search=ALICE@w") == {alice.email}
    assert await found("search=liddell") == {alice.email}
    assert await found("search=alice wonder") == {alice.email}
    assert await found("search=m\u00fcll") == await found("search=M\u00dcLL") == {carla.email}
    assert await found("search=muller") == {carla.email}
    assert await found("search=mueller") == set()
    assert await found("search=100%25") == {bob.email}
    assert await found("search=%5C") == await found("search=_%25") == set()
    assert await found("is_active=false") == await found("is_staff=true") == {bob.email}
    assert await found("role=editors") == {alice.email}
    assert await found("role=nobody") == set()
    assert await found("search=bob&is_active=true") == set()
    assert len(await found("")) == len(await found("search=&is_active=&role=&cursor=")) == 4


@pytest.mark.each_case
@pytest.mark.parametrize("column", ["name", "given_name", "family_name", "preferred_username"])
async def test_search_looks_at_every_name(make: Callable[..., Any], enter: Callable[..., Any], column: str) -> None:
    """Any part of any name finds a person, in any case of any letters."""
    call = await enter(await make(is_superuser=True, email="root@example.com", name="Root"))
    carla = await make(email="carla@example.com", **{"name": "", column: "Carla M\u00fcller-L\u00fcd"})
    await make(email="other@example.com", name="Other", given_name="Other", family_name="100%")
    for text in ("m\u00fcll", "M\u00dcLLER", "ARLA l\u00fcd", "carla@ m\u00dcl", "muller"):
        answer = await call("GET", f"{USERS}?search={text}")
        assert [row["email"] for row in answer.json()["results"]] == [carla.email], text
    for text in ("mueller", "carla nobody", "Europe"):
        assert (await call("GET", f"{USERS}?search={text}")).json()["results"] == []


def test_a_search_is_one_walk(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """Each word is one condition on the row of the person; no other table is joined."""
    with django_assert_num_queries(1) as run:
        assert list(User.objects.get_queryset().search("carla m\u00fcller")) == []
    statement = run.captured_queries[0]["sql"]
    assert " JOIN " not in statement
    assert "zoneinfo" not in statement.partition(" WHERE ")[2]


@pytest.mark.parametrize(
    "query",
    [
        "is_active=maybe",
        "ordering=password",
        "ordering=-id",
        "page_size=0",
        "page_size=201",
        "page_size=x",
        "cursor=nonsense",
        "cursor=WyJlbWFpbCIsIngiLCJ4IixmYWxzZV0",
        "search=%00",
        "role=a%00",
        f"cursor={'x' * 3000}",
        f"search={'x' * 151}",
    ],
)
async def test_bad_queries_are_400_naming_the_parameter(
    query: str, make: Callable[..., Any], enter: Callable[..., Any]
) -> None:
    """A query that cannot be meant is refused, not guessed at and not a 500."""
    answer = await (await enter(await make(is_superuser=True)))("GET", f"{USERS}?{query}")
    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == [query.partition("=")[0]]


@pytest.mark.parametrize("path", [USERS, "/api/v1/roles", "/api/v1/audit"])
async def test_a_parameter_that_a_list_does_not_have_is_400(
    path: str, make: Callable[..., Any], enter: Callable[..., Any]
) -> None:
    """It would filter nothing, and the answer would be taken for the filtered one; it is named beside the bad ones."""
    call = await enter(await make(is_superuser=True))
    assert (await call("GET", f"{path}?page_size=1&cursor=")).status_code == 200
    answer = await call("GET", f"{path}?page_size=0&usr=1&is_activ=")
    assert answer.status_code == 400
    codes = {error["field"]: error["code"] for error in answer.json()["errors"]}
    assert codes == {"page_size": "min_value", "usr": "unknown_parameter", "is_activ": "unknown_parameter"}
    alone = await call("GET", f"{path}?Page_size=1")
    assert [error["field"] for error in alone.json()["errors"]] == ["Page_size"]


async def test_cursor_of_another_ordering_is_refused(make: Callable[..., Any], enter: Callable[..., Any]) -> None:
    """A cursor belongs to its ordering; mixing them would skip rows silently."""
    call = await enter(await make(is_superuser=True))
    await make()
    page = (await call("GET", f"{USERS}?page_size=1&ordering=email")).json()
    assert (await call("GET", page["next"].replace("ordering=email", "ordering=name"))).status_code == 400


async def test_roles_are_listed_and_created(make: Callable[..., Any], enter: Callable[..., Any]) -> None:
    """A role has a name and permissions; bad names and unknown permissions are refused, a taken name is 409."""
    call = await enter(await make(is_superuser=True))
    created = await call("POST", ROLES, {"name": " support ", "permissions": [VIEW, CHANGE, VIEW]})
    assert created.status_code == 201
    assert created.json() == {"name": "support", "permissions": [CHANGE, VIEW]}
    assert (await call("POST", ROLES, {"name": "empty"})).json() == {"name": "empty", "permissions": []}
    listed = (await call("GET", ROLES)).json()
    results = [{"name": "empty", "permissions": []}, created.json()]
    assert listed == {"results": results, "next": None, "previous": None}
    assert _codes(await call("POST", ROLES, {"name": "support"})) == (409, "role_taken")
    for name in ("", "a/b", "a,b", "a\nb", "é", "x" * 151, 5, None):
        assert (await call("POST", ROLES, {"name": name})).status_code == 400, name
    for permissions in (["accounts.nothing"], ["x"], [5], "accounts.view_user", ["a" * 200 + ".b"]):
        assert (await call("POST", ROLES, {"name": "r", "permissions": permissions})).status_code == 400, permissions
    assert await Group.objects.acount() == 2


def test_lists_have_frozen_query_counts(
    make_user: MakeUser, make_role: Callable[..., Group], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """The number of queries does not grow with users, roles or permissions."""
    groups = [make_role(f"role {n}", VIEW, CHANGE) for n in range(6)]
    users = [make_user() for _ in range(12)]
    for user in users:
        user.groups.set(groups)
    filters = {"ordering": "-created_at", "page_size": 50}
    with django_assert_num_queries(2):
        page = staff_units.users_page(filters)
    assert all(isinstance(row, UserOut) and len(row.roles) == 6 for row in page.rows)
    with django_assert_num_queries(1):
        staff_units.user_by_id(users[0].pk)
    with django_assert_num_queries(3):
        assert rights_of(users[0].pk).permissions == {VIEW, CHANGE}
    root = make_user(is_superuser=True)
    with django_assert_num_queries(1):
        assert rights_of(root.pk).holds("anything.at_all")


async def test_no_hash_for_what_will_be_refused(
    make: Callable[..., Any], enter: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rights beyond the caller's, unknown roles and a taken address are found before a password is hashed."""
    call, known = await enter(await make(ADD)), await make()

    def never(_: str) -> None:
        raise AssertionError("hashed in vain")

    monkeypatch.setattr(passwords, "hash_password", never)
    body = {"email": "new@example.com", "password": PASSWORD}
    assert _codes(await call("POST", USERS, body | {"is_staff": True})) == (403, "permission_denied")
    assert _codes(await call("POST", USERS, body | {"roles": ["none"]})) == (400, "invalid")
    assert _codes(await call("POST", USERS, body | {"email": known.email})) == (409, "email_taken")


async def test_a_role_deleted_that_moment(
    make: Callable[..., Any], enter: Callable[..., Any], role: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the database refuses at COMMIT, because a role went just before, is named; nothing stays of the request."""
    call, target = await enter(await make(is_superuser=True)), await make()
    path = f"{USERS}/{target.pk}"
    gone = await role("gone")
    await Group.objects.filter(pk=gone.pk).adelete()
    monkeypatch.setattr(staff_units, "named_roles", lambda _: [gone])
    monkeypatch.setattr(staff_units._ROLE, "rows", lambda **_: [[gone.pk, None, None]])
    assert _codes(await call("PUT", f"{path}/roles/gone")) == (404, "not_found")
    for method, where, body in (
        ("POST", USERS, {"email": "new@example.com", "roles": ["gone"]}),
        ("PATCH", path, {"roles": ["gone"]}),
    ):
        answer = await call(method, where, body)
        assert _codes(answer) == (400, "invalid")
        assert answer.json()["errors"][0]["field"] == "roles"
    assert not await User.objects.filter(email="new@example.com").aexists()
