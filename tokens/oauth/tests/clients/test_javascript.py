"""Libraries of JavaScript."""

from typing import Any

import pytest
from joserfc.jwk import ECKey

from tokens.clients.models import OAuthClient
from tokens.oauth.tests.clients.program import JAVASCRIPT, converse, node
from tokens.oauth.tests.clients.provider import GONE, Provider
from tokens.oauth.tests.material import REDIRECT_URI
from tokens.protocol import GrantType

pytestmark = pytest.mark.django_db(transaction=True)

WAYS = ("basic", "post", "key", "none", "es256", "rs256")
WRONG = ("nonce", "state", "iss", "no iss", "verifier", "code", "person")


async def material(provider: Provider) -> dict[str, Any]:
    """Return what the programs work with: one client for each way to prove who one is, and for each algorithm."""
    pair = ECKey.generate_key("P-256", {"kid": "ec-1", "use": "sig", "alg": "ES256"})
    public = {"keys": [pair.as_dict(private=False)]}
    by_key = await provider.client(auth_method=OAuthClient.AuthMethod.PRIVATE_KEY_JWT, jwks=public)
    device = [GrantType.DEVICE_CODE, GrantType.REFRESH_TOKEN]
    clients = {
        "basic": await provider.client(),
        "post": await provider.client(),
        "key": {**by_key, "private_jwk": pair.as_dict(private=True)},
        "none": await provider.public_client(),
        "es256": await provider.client(id_token_alg=OAuthClient.IdTokenAlg.ES256),
        "rs256": await provider.client(id_token_alg=OAuthClient.IdTokenAlg.RS256),
        "par": await provider.public_client(require_par=True),
        "robot": await provider.client(grants=[GrantType.CLIENT_CREDENTIALS], scopes=["reports"], redirect_uris=[]),
        "device": await provider.public_client(grants=device, redirect_uris=[]),
    }
    whole = {"issuer": provider.issuer, "redirect_uri": REDIRECT_URI, "gone": GONE, "email": provider.person.email}
    return {**whole, "clients": clients}


async def test_openid_client_and_oauth4webapi(provider: Provider) -> None:
    """Both get by on discovery alone and refuse what is wrong; one test, because each start of a server takes seconds.

    openid-client goes every way it has; oauth4webapi walks step by step, and verifies access tokens as an API does.
    """
    given = await material(provider)
    steps = await converse(provider.person, given, node(), JAVASCRIPT / "openid_client.mjs")
    assert set(steps) == {
        *(f"life: {way}" for way in WAYS),
        *(f"refused: {wrong}" for wrong in (*WRONG, "secret")),
        "device",
        "dpop",
        "pushed",
        "pushed as it must be",
        "client credentials",
        "signed out",
    }
    steps = await converse(provider.person, given, node(), JAVASCRIPT / "oauth4webapi.mjs")
    assert steps == [
        "refused: aud",
        "refused: iss of the ID token",
        "ID token verified",
        "userinfo",
        "refreshed",
        "access token verified by an API",
        "revoked",
    ]
