"""Libraries with clients of the profiles of FAPI 2.0, as docs/guides/fapi.md has them made."""

from typing import Any

import pytest
from joserfc.jwk import ECKey, OKPKey, RSAKey

from tokens.clients.models import OAuthClient
from tokens.clients.profiles import initial
from tokens.oauth.tests.clients.mock_oauth2 import installed
from tokens.oauth.tests.clients.program import HERE, JAVASCRIPT, converse, node
from tokens.oauth.tests.clients.provider import Provider
from tokens.oauth.tests.material import REDIRECT_URI

pytestmark = pytest.mark.django_db(transaction=True)

FAPI2, SIGNED = OAuthClient.Profile.FAPI2, OAuthClient.Profile.MESSAGE_SIGNING


async def client(provider: Provider, alg: str, profile: str = FAPI2, **fields: Any) -> dict[str, Any]:
    """Make a client that signs by this algorithm; return its id, with the key that it alone has."""
    named: Any = {"kid": alg, "use": "sig", "alg": alg}
    match alg:
        case "PS256":
            key: Any = RSAKey.generate_key(2048, named)
        case "ES256":
            key = ECKey.generate_key("P-256", named)
        case _:
            key = OKPKey.generate_key("Ed25519", named)
    given = {**initial(profile), "jwks": {"keys": [key.as_dict(private=False)]}, **fields}
    return {**await provider.client(**given), "private_jwk": key.as_dict(private=True)}


async def material(provider: Provider) -> dict[str, Any]:
    """Return what the programs work with: a client for each algorithm, and one that signs its requests."""
    fields = {"request_object_signing_alg": "EdDSA", "authorization_signed_response_alg": "ES256"}
    return {
        "issuer": provider.issuer,
        "redirect_uri": REDIRECT_URI,
        "email": provider.person.email,
        "clients": {alg: await client(provider, alg) for alg in ("PS256", "ES256", "EdDSA")},
        "signed": await client(provider, "EdDSA", SIGNED, **fields),
        "java": await client(provider, "ES256", id_token_alg="ES256"),
        "java_signed": await client(
            provider, "ES256", SIGNED, id_token_alg="ES256", authorization_signed_response_alg="ES256"
        ),
    }


async def test_openid_client_and_oauth4webapi(provider: Provider) -> None:
    """Sign in, lose an answer, introspect and revoke, with every algorithm; refuse another key and an open request."""
    steps = await converse(provider.person, await material(provider), node(), JAVASCRIPT / "fapi.mjs")
    assert steps == [
        *(f"fapi2: {alg}" for alg in ("PS256", "ES256", "EdDSA")),
        "refused: another key",
        "refused: not pushed",
        "fapi2: oauth4webapi",
        "fapi2-message-signing",
        "refused: not signed",
    ]


async def test_nimbus(provider: Provider) -> None:
    """The same in Java."""
    program = HERE / "java" / "Fapi.java"
    command = ("java", "-XX:TieredStopAtLevel=1", "-cp", f"{installed()}/*", program)
    steps = await converse(provider.person, await material(provider), *command)
    assert steps == ["fapi2: Nimbus", "refreshed", "refused: another key", "fapi2-message-signing: Nimbus"]
