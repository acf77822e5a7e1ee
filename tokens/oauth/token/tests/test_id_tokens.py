"""ID tokens: what they say, and that clients can verify them."""

import base64
import hashlib
import json
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from joserfc import jwt
from joserfc.jwk import KeySet

from accounts.users.models import User
from accounts.users.outputs import Account
from accounts.users.services import account_snapshot
from ironauth.infrastructure.core import clock
from tokens.clients import registry as clients
from tokens.clients.models import OAuthClient
from tokens.clients.registry import Client
from tokens.errors import SigningKeyMissing
from tokens.keys.key_set import Family
from tokens.keys.store import key_store
from tokens.keys.units import create_first_keys, drop
from tokens.oauth import id_tokens
from tokens.oauth.id_tokens import Hint

WHEN = datetime(2026, 5, 1, 12, tzinfo=UTC)


async def client_of(**fields: Any) -> Client:
    """Return a stored client as requests see it."""
    row = await OAuthClient.objects.acreate(name="App", redirect_uris=["https://app.example/cb"], **fields)
    found = await clients.find(str(row.pk))
    assert found is not None
    return found


async def person() -> Account:
    """Return somebody who can be told about."""
    user = await sync_to_async(User.objects.create_user)(email="ann@example.com")
    account = await sync_to_async(account_snapshot)(user.pk)
    assert account is not None
    return account


async def published() -> KeySet:
    """Return the keys as a client fetches them."""
    return KeySet.import_key_set(json.loads((await key_store().for_publishing()).jwks))


async def test_claims(signing_key: str) -> None:
    """Every claim is there, for this client alone, and nothing that userinfo would say."""
    client, account, session_id = await client_of(), await person(), uuid.uuid4()
    token = await id_tokens.mint(
        client=client,
        account=account,
        scope="openid email",
        session_id=session_id,
        authenticated_at=WHEN,
        amr="pwd otp mfa",
        nonce="n-0S6_WzA2Mj",
        access_token="jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y",
    )
    found = jwt.decode(token, await published(), algorithms=["EdDSA"])
    assert found.header == {"alg": "EdDSA", "kid": signing_key, "typ": "JWT"}
    iat = found.claims["iat"]
    digest = hashlib.sha512(b"jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y").digest()
    assert found.claims == {
        "iss": settings.IRONAUTH_ISSUER,
        "sub": str(account.id),
        "aud": client.client_id,
        "iat": iat,
        "exp": iat + 600,
        "auth_time": int(WHEN.timestamp()),
        "amr": ["pwd", "otp", "mfa"],
        "acr": "aal2",
        "nonce": "n-0S6_WzA2Mj",
        "sid": str(session_id),
        "at_hash": base64.urlsafe_b64encode(digest[:32]).decode().rstrip("="),
    }


async def test_what_was_not_asked_is_left_out(signing_key: str) -> None:
    """No nonce, session or access token: no claim about it."""
    token = await id_tokens.mint(
        client=await client_of(),
        account=await person(),
        scope="openid",
        session_id=None,
        authenticated_at=WHEN,
        amr="pwd",
    )
    claims = jwt.decode(token, await published(), algorithms=["EdDSA"]).claims
    assert set(claims) == {"iss", "sub", "aud", "iat", "exp", "auth_time", "amr", "acr"}
    assert claims["acr"] == "aal1"


async def test_only_with_openid(signing_key: str) -> None:
    """Who did not ask for the scope openid gets none."""
    with pytest.raises(ValueError, match="openid"):
        await id_tokens.mint(
            client=await client_of(),
            account=await person(),
            scope="profile email",
            session_id=None,
            authenticated_at=WHEN,
            amr="pwd",
        )


@pytest.mark.parametrize(("family", "half"), [("ES256", 16), ("RS256", 16)])
async def test_other_algorithms(signing_key: str, family: str, half: int) -> None:
    """A client that cannot verify Ed25519 gets ID tokens it can, with the hash that belongs to the algorithm."""
    kid = await sync_to_async(create_first_keys)(Family(family))
    token = await id_tokens.mint(
        client=await client_of(id_token_alg=family),
        account=await person(),
        scope="openid",
        session_id=None,
        authenticated_at=WHEN,
        amr="pwd",
        access_token="token",
    )
    found = jwt.decode(token, await published(), algorithms=[family])
    assert found.header == {"alg": family, "kid": kid, "typ": "JWT"}
    digest = hashlib.sha256(b"token").digest()
    assert found.claims["at_hash"] == base64.urlsafe_b64encode(digest[:half]).decode().rstrip("=")


async def test_without_a_key_of_its_algorithm(signing_key: str) -> None:
    """Nothing is signed with another algorithm than the client was told."""
    with pytest.raises(SigningKeyMissing):
        await id_tokens.mint(
            client=await client_of(id_token_alg="ES256"),
            account=await person(),
            scope="openid",
            session_id=None,
            authenticated_at=WHEN,
            amr="pwd",
        )


async def test_pairwise(signing_key: str) -> None:
    """A pairwise client is told another ``sub`` than the public id."""
    account = await person()
    client = await client_of(subject_type="pairwise")
    token = await id_tokens.mint(
        client=client, account=account, scope="openid", session_id=None, authenticated_at=WHEN, amr="pwd"
    )
    assert jwt.decode(token, await published(), algorithms=["EdDSA"]).claims["sub"] != str(account.id)


@pytest.mark.parametrize("family", ["ed25519", "ES256", "RS256"])
async def test_hint(signing_key: str, family: str) -> None:
    """An ID token of ours tells the person it names, however long ago it expired."""
    await sync_to_async(create_first_keys)(Family(family))
    client, account, session_id = await client_of(id_token_alg=family), await person(), uuid.uuid4()
    with clock.shifted(-3_600):
        token = await id_tokens.mint(
            client=client, account=account, scope="openid", session_id=session_id, authenticated_at=WHEN, amr="pwd"
        )
    assert await id_tokens.read_hint(token) == Hint(str(account.id), client.client_id, session_id)


async def test_what_is_no_hint(signing_key: str, pair: dict[str, Any]) -> None:
    """Neither an access token, nor a changed one, nor one of a key that is not ours any more, nor any other text."""
    client, account = await client_of(), await person()
    token = await id_tokens.mint(
        client=client, account=account, scope="openid", session_id=None, authenticated_at=WHEN, amr="pwd"
    )
    header, payload, signature = token.split(".")
    other = base64.urlsafe_b64encode(b'{"iss":"http://localhost:8000","sub":"x","aud":"y"}').decode().rstrip("=")
    unsigned = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').decode().rstrip("=")
    for text in (
        pair["access_token"],
        f"{header}.{other}.{signature}",
        f"{unsigned}.{payload}.",
        f"{unsigned}.{payload}.AA",
        token + "A",
        "a.b.c",
        "",
        "x" * 5_000,
    ):
        assert await id_tokens.read_hint(text) is None
    assert await id_tokens.read_hint(token) is not None
    await sync_to_async(drop)(signing_key)
    assert await id_tokens.read_hint(token) is None
