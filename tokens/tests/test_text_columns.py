"""Texts that staff send fit the columns they are stored in: PostgreSQL would answer longer ones with a server error."""

from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db.models import Model

from accounts.federation.models import UpstreamProvider
from accounts.invitations.models import Invitation
from accounts.users.models import User
from conftest import PASSWORD
from tokens.clients.models import OAuthClient

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

PROVIDER = {
    "slug": "acme", "name": "Acme", "kind": "oidc", "issuer": "https://acme.example", "client_id": "we", "secret": "s",
}  # fmt: skip
CLIENT = {"name": "Wiki", "redirect_uris": ["https://wiki.example/callback"]}
ADDRESS = "https://wiki.example/"
#: Path, body, model, field, and how its text begins.
COLUMNS: list[tuple[str, dict[str, Any], type[Model], str, str]] = [
    ("users", {"email": "ida@example.com"}, User, "name", ""),
    ("roles", {"permissions": []}, Group, "name", ""),
    ("users/invitations", {"email": "ida@example.com"}, Invitation, "name", ""),
    ("users/invitations", {"email": "ida@example.com"}, Invitation, "language", ""),
    ("users/invitations", {"email": "ida@example.com"}, Invitation, "client", ""),
    ("clients", CLIENT, OAuthClient, "name", ""),
    ("clients", CLIENT, OAuthClient, "sector", "wiki.example."),
    ("clients", CLIENT, OAuthClient, "backchannel_logout_uri", ADDRESS),
    ("clients", CLIENT, OAuthClient, "initiate_login_uri", ADDRESS),
    *(("clients", CLIENT, OAuthClient, f"{which}_uri", ADDRESS) for which in ("logo", "policy", "tos")),
    ("providers", PROVIDER, UpstreamProvider, "slug", ""),
    ("providers", PROVIDER, UpstreamProvider, "name", ""),
    ("providers", PROVIDER, UpstreamProvider, "client_id", ""),
    ("providers", PROVIDER, UpstreamProvider, "issuer", ADDRESS),
]
#: Those of which any text is good that is as long as its column.
WHOLE = (
    "name", "client_id", "slug", "backchannel_logout_uri", "initiate_login_uri", "logo_uri", "policy_uri", "tos_uri",
)  # fmt: skip


@pytest.mark.each_case
@pytest.mark.parametrize(
    ("path", "body", "model", "field", "begins"), COLUMNS, ids=[f"{path}-{field}" for path, _, _, field, _ in COLUMNS]
)
async def test_a_text_fits_its_column(
    api: httpx.AsyncClient,
    signing_key: str,
    path: str,
    body: dict[str, Any],
    model: type[Model],
    field: str,
    begins: str,
) -> None:
    """One character more than the column has is refused with a word to the field; as many are stored."""
    root = await sync_to_async(User.objects.create_superuser)("root@example.com", PASSWORD)
    signed = await api.post("/api/v1/access/signin", json={"email": root.email, "password": PASSWORD})
    headers = {"authorization": f"Bearer {signed.json()['access_token']}"}
    longest: int = getattr(model._meta.get_field(field), "max_length")  # noqa: B009 - a column of text has one
    refused = await api.post(f"/api/v1/{path}", json={**body, field: begins.ljust(longest + 1, "a")}, headers=headers)
    assert refused.status_code == 400, refused.text
    assert field in [error["field"] for error in refused.json()["errors"]]
    if field in WHOLE:
        text = begins.ljust(longest, "a")
        answer = await api.post(f"/api/v1/{path}", json={**body, field: text}, headers=headers)
        said = [error["field"] for error in answer.json().get("errors", ())]
        assert answer.status_code == 201 or field not in said, answer.text
        assert answer.status_code in (201, 400), answer.text
