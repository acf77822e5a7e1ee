"""What a client's profile and settings change at the token endpoint: grace, proofs, strict scopes."""

import base64
import json
import uuid
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from joserfc.jwk import ECKey, RSAKey

from ironauth.infrastructure.core import clock
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.flow import TOKEN, Party, approve
from tokens.oauth.tests.proofs import new_key, proof

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


async def changed(party: Party, **fields: Any) -> None:
    """Change the client, as staff do."""
    for name, value in fields.items():
        setattr(party.client, name, value)
    await sync_to_async(party.client.save)()


def with_proof(party: Party, key: Any, **header: Any) -> Party:
    """Return the client as it proves a key at the token endpoint."""
    return Party(party.api, party.client, party.secret, {"DPoP": proof(key, "POST", TOKEN, header=header)})


async def bound(party: Party, member: dict[str, Any], key: ECKey) -> str:
    """Return a refresh token that was got with a proof."""
    answer = await with_proof(party, key).redeem(await sync_to_async(approve)(party.client, uuid.UUID(member["id"])))
    assert answer.status_code == 200, answer.text
    return str(answer.json()["refresh_token"])


@pytest.mark.parametrize(
    ("profile", "after", "status"),
    [("fapi2", 30, 200), ("fapi2", 59, 200), ("fapi2", 60, 400), ("oauth2.1", 9, 200), ("oauth2.1", 30, 400)],
)
async def test_the_former_refresh_token_of_a_bound_client(
    wiki: Party, member: dict[str, Any], still_clock: float, profile: str, after: int, status: int
) -> None:
    """FAPI 2.0 §5.3.2.1: a client that lost the answer asks again within a minute, and gets the same successor.

    Introspection says the same of it (RFC 7662 §2.2), though the client proves no key there.
    """
    await changed(wiki, profile=profile, dpop="required")
    key = new_key()
    former = await bound(wiki, member, key)
    newest = (await with_proof(wiki, key).refresh(former)).json()["refresh_token"]
    with clock.shifted(after):
        assert (await wiki.introspect(former))["active"] is (status == 200)
        answer = await with_proof(wiki, key).refresh(former)
        assert answer.status_code == status
        if status == 200:
            assert answer.json()["refresh_token"] == newest


async def test_the_minute_is_for_bound_tokens(wiki: Party, tokens: dict[str, Any], still_clock: float) -> None:
    """Without a proof the window is everybody's: a stolen token is found out by its second use."""
    await changed(wiki, profile="fapi2")
    await wiki.refresh(tokens["refresh_token"])
    with clock.shifted(30):
        assert not (await wiki.introspect(tokens["refresh_token"]))["active"]
        assert (await wiki.refresh(tokens["refresh_token"])).status_code == 400


@pytest.mark.parametrize(("profile", "status"), [("fapi2", 400), ("oauth2.1", 200)])
@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
async def test_proofs_signed_by_rs256(wiki: Party, member: dict[str, Any], profile: str, status: int) -> None:
    """FAPI 2.0 §5.4 forbids it for everything that is signed."""
    await changed(wiki, profile=profile)
    signs = with_proof(wiki, RSAKey.generate_key(2_048), alg="RS256")
    answer = await signs.redeem(await sync_to_async(approve)(wiki.client, uuid.UUID(member["id"])))
    assert answer.status_code == status
    assert answer.json().get("error") == (None if status == 200 else "invalid_dpop_proof")


async def test_strict_scopes(robot: Party) -> None:
    """A strict client hears which scope it may not have; another gets the rest."""
    asked = {"grant_type": "client_credentials", "scope": "reports root"}
    assert (await robot.post(TOKEN, **asked)).json()["scope"] == "reports"
    await changed(robot, strict_scopes=True)
    answer = await robot.post(TOKEN, **asked)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_scope")
    assert "root" in answer.json()["error_description"]
    assert (await robot.post(TOKEN, **{**asked, "scope": "reports"})).status_code == 200


def body_of(answer: httpx.Response) -> dict[str, Any]:
    """Return the claims of the ID token of an answer."""
    part = answer.json()["id_token"].split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))))


PERSONAL = {"name", "email", "email_verified", "roles"}


@pytest.mark.parametrize(
    ("always", "named", "scope", "told"),
    [
        (False, "", "openid profile email", set()),
        (True, "", "openid profile email", {"name", "email", "email_verified"}),
        (True, "", "openid email", {"email", "email_verified"}),
        (True, "", "openid", set()),
        (False, "email", "openid profile email", {"email"}),
        (False, "email name", "openid profile", {"name"}),
        (True, "email", "openid profile email", {"name", "email", "email_verified"}),
    ],
)
async def test_claims_in_the_id_token(
    wiki: Party, member: dict[str, Any], always: bool, named: str, scope: str, told: set[str]
) -> None:
    """By the client's setting all of its scopes; else those that the request named, and no more than was granted."""
    await changed(wiki, id_token_claims=always)
    code = await sync_to_async(approve)(wiki.client, uuid.UUID(member["id"]), scope=scope, id_claims=named)
    claims = body_of(await wiki.redeem(code))
    assert claims.keys() & PERSONAL == told
    assert claims.get("email", member["email"]) == member["email"]


async def test_what_was_taken_from_a_client_is_not_told(wiki: Party, member: dict[str, Any]) -> None:
    """A scope that staff have taken between code and exchange takes its claims with it."""
    await changed(wiki, id_token_claims=True)
    code = await sync_to_async(approve)(wiki.client, uuid.UUID(member["id"]), scope="openid profile email")
    await changed(wiki, scopes=["openid", "profile"])
    assert body_of(await wiki.redeem(code)).keys() & PERSONAL == {"name"}
    assert await OAuthClient.objects.filter(id_token_claims=True).aexists()
