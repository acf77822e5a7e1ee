"""Every list of staff refuses a parameter it does not have: it would filter nothing, and the answer look filtered."""

import json
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings

from accounts.organizations.models import Membership, Organization
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.config.openapi import STAFF_CHAPTERS
from tokens.tests.browser import SIGNIN

pytestmark = [pytest.mark.django_db(transaction=True)]

#: Asked by proxies about one request, of which they may pass on the query.
NO_LIST: Final = {"/api/v1/access/verify"}
ALL: Final = {
    "/api/v1/users", "/api/v1/users/invitations", "/api/v1/roles", "/api/v1/audit", "/api/v1/audit/export",
    "/api/v1/users/{user_id}/sessions", "/api/v1/clients", "/api/v1/keys", "/api/v1/providers",
    "/api/v1/resources", "/api/v1/authorization-details-types",
    "/api/v1/users/{user_id}/kept-devices", "/api/v1/users/{user_id}/identities", "/api/v1/users/{user_id}/messages",
    "/api/v1/users/{user_id}/consents", "/api/v1/users/{user_id}/organizations", "/api/v1/staff/organizations",
    "/api/v1/staff/organizations/{organization_id}/members", "/api/v1/organizations/{organization_id}/members",
}  # fmt: skip


def _lists() -> set[str]:
    """Return the paths of the API's description that answer staff with a list, or take parameters at all."""
    document = json.loads((Path(settings.BASE_DIR) / "ironauth" / "openapi.json").read_text())

    def is_list(operation: dict[str, Any]) -> bool:
        schema = operation["responses"].get("200", {}).get("content", {}).get("application/json", {}).get("schema", {})
        if name := schema.get("$ref", "").rpartition("/")[2]:
            schema = document["components"]["schemas"][name]
        return schema.get("type") == "array" or "results" in schema.get("properties", {})

    found = set()
    for path, operations in document["paths"].items():
        operation = operations.get("get", {})
        asks = any(one["in"] == "query" for one in operation.get("parameters", ()))
        of_staff = not STAFF_CHAPTERS.isdisjoint(operation.get("tags", ()))
        if path.startswith("/api/v1/") and (asks or (of_staff and is_list(operation))):
            found.add(path)
    return found - NO_LIST


def test_which_lists_there_are() -> None:
    """The description is read right: a list that is added is found."""
    assert _lists() == ALL


@pytest.mark.parametrize("path", sorted(ALL))
@pytest.mark.usefixtures("signing_key")
async def test_a_list_refuses_what_it_does_not_have(path: str, api: httpx.AsyncClient) -> None:
    """400 naming the parameter; without it the same list is there."""
    root = await sync_to_async(User.objects.create_superuser)("root@example.com", PASSWORD)
    headers = bearer((await api.post(SIGNIN, json={"email": root.email, "password": PASSWORD})).json())
    query = {"format": "csv"} if path.endswith("/export") else {}
    acme = await Organization.objects.acreate(name="Acme", slug="acme")
    await Membership.objects.acreate(organization=acme, user=root, role="owner")
    address = path.replace("{user_id}", str(root.pk)).replace("{organization_id}", str(acme.pk))
    assert (await api.get(address, params=query, headers=headers)).status_code == 200
    answer = await api.get(address, params={**query, "no_such": "1"}, headers=headers)
    assert answer.status_code == 400
    errors = [(one["field"], one["code"]) for one in answer.json()["errors"]]
    assert errors == [("no_such", "unknown_parameter")]
