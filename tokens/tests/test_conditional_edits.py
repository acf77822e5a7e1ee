"""Editing what was read and nothing newer: people, roles, clients and sign-in providers under a condition."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group

from accounts.access.permissions import StaffView
from accounts.audit.models import AuditEvent
from accounts.organizations.models import Organization
from accounts.users.models import User
from conftest import PASSWORD, ServeProcess, bearer
from ironauth.infrastructure.http.cross_origin import ALLOWED, EXPOSED
from tokens.details.models import DetailType
from tokens.oauth.tests.material import make_client
from tokens.resources.models import ApiResource
from tokens.tests.browser import SIGNIN
from tokens.tests.staff import staff
from tokens.tests.stage import Stage
from tokens.upstream.tests.walk import stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

AT_ONCE = 12
ROUNDS = 3
WORKERS = 2
PERMISSIONS = ("view_user", "add_user", "change_user", "delete_user")
OTHER = '"AAAAAAAAAAAAAAAAAAAAAA"'


class Resource(NamedTuple):
    """One kind of resource: its view, how one is made, whether its name is in its path, and a text that it has."""

    view: str
    make: Callable[[], str]
    moves: bool = False
    text: str = "name"

    def change(self, number: int) -> dict[str, Any]:
        """Return the body of a change that keeps the path; every number up to 15 gives another state."""
        if not self.moves:
            return {self.text: f"Number {number}"}
        given = [one for bit, one in enumerate(PERMISSIONS) if number & 1 << bit]
        return {"permissions": [f"accounts.{one}" for one in given]}


def person() -> str:
    """Make a person."""
    return f"/api/v1/users/{User.objects.create_user(email='edited@example.com').pk}"


def role() -> str:
    """Make a role."""
    return f"/api/v1/roles/{Group.objects.create(name='editors').name}"


def client() -> str:
    """Make a client."""
    return f"/api/v1/clients/{make_client()[0].pk}"


def provider() -> str:
    """Make a provider that is switched off, so that it can be deleted."""
    return f"/api/v1/providers/{stored('acme', 'https://id.acme.example', enabled=False).slug}"


def api() -> str:
    """Register an API."""
    return f"/api/v1/resources/{ApiResource.objects.create(identifier='https://api.example.com', name='Orders').pk}"


def organization() -> str:
    """Make an organisation."""
    return f"/api/v1/staff/organizations/{Organization.objects.create(name='Acme', slug='acme').pk}"


def detail_type() -> str:
    """Register a type of authorization details."""
    row = DetailType.objects.create(identifier="payment", words="Pay what the shop says")
    return f"/api/v1/authorization-details-types/{row.pk}"


RESOURCES = [
    Resource("UserView", person),
    Resource("RoleView", role, moves=True),
    Resource("ClientView", client),
    Resource("ProviderView", provider),
    Resource("ResourceView", api),
    Resource("StaffOrganizationView", organization),
    Resource("DetailTypeView", detail_type, text="words"),
]
every_resource = pytest.mark.parametrize("resource", RESOURCES, ids=[one.view for one in RESOURCES])


async def ask(stage: Stage, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
    """Send a request of the superuser with header fields; ``_`` in a name is a hyphen."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return await stage.api.request(method, path, json=body, headers={**bearer(stage.root_pair), **fields})


async def made(stage: Stage, resource: Resource) -> tuple[str, str]:
    """Make one, and return its path and its ETag."""
    path = await sync_to_async(resource.make)()
    answer = await ask(stage, "GET", path)
    assert answer.status_code == 200, answer.text
    return path, answer.headers["ETag"]


def test_every_view_that_edits_is_tried_here() -> None:
    """A view that declares what it edits is in the table of this module."""

    def below(kind: type[Any]) -> set[type[Any]]:
        return {kind}.union(*(below(one) for one in kind.__subclasses__()))

    assert {one.view for one in RESOURCES} == {one.__name__ for one in below(StaffView) if one.edited is not None}
    acts = {one.__name__ for one in below(StaffView) if one.acts_on is not None}
    assert acts == {"ClientVerifyView"}, "tried in tokens/clients/dynamic/tests/test_staff.py"


@every_resource
async def test_an_etag_is_strong_and_of_what_is_shown(stage: Stage, resource: Resource) -> None:
    """It is the same until something is changed, with HEAD too, and another one then."""
    path, etag = await made(stage, resource)
    assert (etag[0], etag[-1], len(etag)) == ('"', '"', 24)
    for method in ("GET", "HEAD"):
        assert (await ask(stage, method, path)).headers["ETag"] == etag
    assert (await ask(stage, "PATCH", path, resource.change(1))).status_code == 200
    assert (await ask(stage, "GET", path)).headers["ETag"] != etag


@every_resource
async def test_a_state_that_is_known_is_not_sent_again(stage: Stage, resource: Resource) -> None:
    """``If-None-Match`` is compared weakly, and a list of ETags is read; another state is sent."""
    path, etag = await made(stage, resource)
    for known in (etag, f"W/{etag}", f"{OTHER}, {etag}", "*"):
        answer = await ask(stage, "GET", path, If_None_Match=known)
        assert (answer.status_code, answer.content, answer.headers["ETag"]) == (304, b"", etag)
        assert "content-type" not in answer.headers
        assert answer.headers["cache-control"] == "no-store"
    for unknown in (OTHER, "", "nonsense", etag.strip('"')):
        assert (await ask(stage, "GET", path, If_None_Match=unknown)).status_code == 200


@every_resource
async def test_a_change_of_what_was_read_is_made(stage: Stage, resource: Resource) -> None:
    """The answer has the ETag from then on, with which the next change is made; then it is deleted under the last."""
    path, etag = await made(stage, resource)
    answer = await ask(stage, "PATCH", path, resource.change(1), If_Match=etag)
    assert answer.status_code == 200, answer.text
    after = answer.headers["ETag"]
    assert after != etag
    assert (await ask(stage, "GET", path)).headers["ETag"] == after
    assert (await ask(stage, "PATCH", path, {}, If_Match=f"{OTHER}, {after}")).headers["ETag"] == after
    assert (await ask(stage, "PATCH", path, {}, If_Match="*")).status_code == 200
    assert (await ask(stage, "DELETE", path, If_Match=after)).status_code == 204
    assert (await ask(stage, "GET", path)).status_code == 404


@every_resource
async def test_a_change_of_anything_else_is_refused(stage: Stage, resource: Resource) -> None:
    """An older state, a weak ETag, what is no ETag, and a state that ``If-None-Match`` excludes are 412.

    Nothing is changed then, and nothing is in the trail.
    """
    path, etag = await made(stage, resource)
    before = (await ask(stage, "GET", path)).content
    conditions = [{"If_Match": one} for one in (OTHER, f"W/{etag}", "", "nonsense", etag.strip('"'))]
    conditions += [{"If_None_Match": one} for one in (etag, "*")]
    events = await AuditEvent.objects.acount()
    for condition in conditions:
        for method, body in (("PATCH", {"name": "Changed"}), ("DELETE", None)):
            answer = await ask(stage, method, path, body, **condition)
            assert (answer.status_code, answer.json()["code"]) == (412, "precondition_failed"), (method, condition)
            assert "etag" not in answer.headers
    assert (await ask(stage, "GET", path, If_Match=OTHER)).status_code == 412
    answer = await ask(stage, "GET", path, If_Match=etag)
    assert (answer.status_code, answer.content) == (200, before)
    assert await AuditEvent.objects.acount() == events


async def test_a_role_that_gets_another_name_has_no_etag_where_it_was(stage: Stage) -> None:
    """Its path leads nowhere from then on."""
    path, etag = await made(stage, RESOURCES[1])
    answer = await ask(stage, "PATCH", path, {"name": "authors"}, If_Match=etag)
    assert (answer.status_code, answer.json()["name"]) == (200, "authors")
    assert "etag" not in answer.headers


@every_resource
async def test_who_may_not_learns_nothing_of_the_state(stage: Stage, resource: Resource) -> None:
    """Without the right a change is 403 with every ETag, and so is GET; nothing there is 404 with every ETag."""
    path, etag = await made(stage, resource)
    pair = await staff(stage.api)
    for condition in ({}, {"If-Match": etag}, {"If-Match": OTHER}, {"If-None-Match": etag}):
        for method, body in (("GET", None), ("PATCH", {"name": "Changed"}), ("DELETE", None)):
            answer = await stage.api.request(method, path, json=body, headers={**bearer(pair), **condition})
            # a person without rights reaches no step-up question first: both refusals say nothing of the state
            assert answer.status_code == 403, (method, condition, answer.text)
            assert "etag" not in answer.headers
    assert (await ask(stage, "DELETE", path)).status_code == 204
    for condition in ({"If_Match": etag}, {"If_Match": "*"}, {"If_None_Match": etag}):
        assert (await ask(stage, "PATCH", path, {}, **condition)).status_code == 404


@every_resource
async def test_of_many_who_have_read_the_same_one_changes_it(
    resource: Resource, serve_process: ServeProcess, rs256_key: object
) -> None:
    """Two processes get as many changes at once, all under one ETag: one is made, the others are 412."""
    del rs256_key
    path = await sync_to_async(resource.make)()
    await sync_to_async(User.objects.create_superuser)(email="root@example.com", password=PASSWORD)
    base = await asyncio.to_thread(serve_process, "--workers", str(WORKERS))
    limits = httpx.Limits(max_connections=AT_ONCE)
    async with httpx.AsyncClient(base_url=base, limits=limits, timeout=30) as api:
        signed_in = await api.post(SIGNIN, json={"email": "root@example.com", "password": PASSWORD})
        headers = bearer(signed_in.json())
        for _ in range(ROUNDS):
            assert (await api.patch(path, json=resource.change(0), headers=headers)).status_code == 200
            etag = (await api.get(path, headers=headers)).headers["ETag"]
            under = {**headers, "If-Match": etag}
            changes = (api.patch(path, json=resource.change(1 + one), headers=under) for one in range(AT_ONCE))
            answers = await asyncio.gather(*changes)
            assert Counter(answer.status_code for answer in answers) == {200: 1, 412: AT_ONCE - 1}
            changed = next(answer for answer in answers if answer.status_code == 200)
            shown = await api.get(path, headers=headers)
            assert shown.headers["ETag"] == changed.headers["ETag"]
            assert {**changed.json(), **shown.json()} == changed.json()


def test_pages_of_other_origins_may_send_conditions_and_read_etags() -> None:
    """The preflight lists the fields, and answers expose the ETag."""
    assert {b"If-Match", b"If-None-Match"} <= set(ALLOWED.split(b", "))
    assert b"ETag" in EXPOSED.split(b", ")
