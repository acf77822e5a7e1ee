"""Access tokens for APIs that cannot verify Ed25519: signed as their client says, and as good as any other here."""

import base64
import hashlib
import hmac
import json
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jws
from joserfc.jwk import KeySet

from conftest import bearer
from ironauth.infrastructure.cache.two_level import token_cache
from tokens.clients import profiles
from tokens.clients.models import OAuthClient
from tokens.keys.key_set import Family
from tokens.keys.models import SigningKey
from tokens.keys.store import key_store
from tokens.keys.units import create_first_keys
from tokens.oauth.logout.tests.test_logout import tokens_of
from tokens.oauth.tests.material import make_client
from tokens.tests.browser import Member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

ME, VERIFY, JWKS = "/api/v1/access/me", "/api/v1/access/verify", "/.well-known/jwks.json"
SCOPE = "openid profile offline_access account"
OTHERS = [Family.ES256, Family.RS256]


async def made(family: Family, **fields: Any) -> tuple[OAuthClient, str]:
    """Return a client whose access tokens are of this family, and its secret; the keys are made too."""
    if family is not Family.ED25519:
        await sync_to_async(create_first_keys)(family)
        key_store().forget()
    given: dict[str, Any] = {"trusted": True, "scopes": SCOPE.split(), "access_token_alg": family.value, **fields}
    return await sync_to_async(make_client)(**given)


def header_of(token: str) -> dict[str, Any]:
    """Return the header of a token."""
    text = token.partition(".")[0]
    header: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return header


async def test_ed25519_unless_it_says_otherwise(api: httpx.AsyncClient, member: Member, signing_key: str) -> None:
    """A new client has it, whatever signs its ID tokens."""
    client, secret = await made(Family.ED25519)
    tokens = await tokens_of(api, client, secret, member, SCOPE)
    assert header_of(tokens["access_token"]) == {"alg": "EdDSA", "kid": signing_key, "typ": "at+jwt"}


@pytest.mark.parametrize("family", OTHERS)
async def test_it_is_good_everywhere(api: httpx.AsyncClient, member: Member, signing_key: str, family: Family) -> None:
    """Of code and refresh, warm and cold: the API, verify, userinfo and introspection take it; the JWKS has its key."""
    client, secret = await made(family)
    tokens = await tokens_of(api, client, secret, member, SCOPE)
    asked = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    refreshed = (await api.post("/oauth/token", data=asked, auth=(str(client.pk), secret))).json()
    keys = KeySet.import_key_set((await api.get(JWKS)).json())
    for token in (tokens["access_token"], refreshed["access_token"]):
        header = header_of(token)
        assert (header["alg"], header["typ"]) == (family.value, "at+jwt")
        assert jws.deserialize_compact(token, keys, algorithms=[family.value]).headers()["kid"] == header["kid"]
        for cold in (False, True, False):  # as issued here; as of another worker; from the hot lane
            if cold:
                token_cache().clear()
            for address in (ME, VERIFY, "/oauth/userinfo"):
                answer = await api.get(address, headers=bearer({"access_token": token}))
                assert answer.status_code in {200, 204}, (address, cold, answer.text)
            told = await api.post("/oauth/introspect", data={"token": token}, auth=(str(client.pk), secret))
            assert told.json()["active"] is True


@pytest.mark.parametrize("family", OTHERS)
async def test_of_a_client_itself(api: httpx.AsyncClient, signing_key: str, family: Family) -> None:
    """The grant of client credentials signs by it too."""
    client, secret = await made(family, grants=["client_credentials"], scopes=["reports"], redirect_uris=[])
    asked = {"grant_type": "client_credentials"}
    token = (await api.post("/oauth/token", data=asked, auth=(str(client.pk), secret))).json()["access_token"]
    assert header_of(token)["alg"] == family.value
    told = await api.post("/oauth/introspect", data={"token": token}, auth=(str(client.pk), secret))
    assert (told.json()["active"], told.json()["scope"]) == (True, "reports")


@pytest.mark.parametrize("family", OTHERS)
async def test_a_dropped_key_ends_it(api: httpx.AsyncClient, member: Member, signing_key: str, family: Family) -> None:
    """Tokens of a key that is gone are refused, also those that were known; others go on."""
    client, secret = await made(family)
    token = (await tokens_of(api, client, secret, member, SCOPE))["access_token"]
    assert (await api.get(ME, headers=bearer({"access_token": token}))).status_code == 200
    await SigningKey.objects.filter(kid=header_of(token)["kid"]).adelete()
    key_store().outdated()
    await key_store().for_verifying()
    assert (await api.get(ME, headers=bearer({"access_token": token}))).status_code == 401
    asked = {"grant_type": "refresh_token", "refresh_token": "none"}
    answer = await api.post("/oauth/token", data=asked, auth=(str(client.pk), secret))
    assert answer.status_code == 400  # the form comes first


async def test_the_algorithm_is_the_keys_own(api: httpx.AsyncClient, member: Member, signing_key: str) -> None:
    """Under another algorithm a key opens nothing, least of all as the secret of a MAC (RFC 8725 §3.1, §2.1)."""
    client, secret = await made(Family.RS256)
    token = (await tokens_of(api, client, secret, member, SCOPE))["access_token"]
    token_cache().clear()
    _, _, rest = token.partition(".")
    payload, _, signature = rest.partition(".")
    public = next(key for key in (await key_store().for_verifying()).verifying.values() if key.alg == "RS256")
    pem = public.key.raw_value.public_key() if hasattr(public.key.raw_value, "public_key") else public.key.raw_value
    secrets = [pem.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo), (await api.get(JWKS)).content]

    def encoded(said: Any) -> str:
        return (
            base64.urlsafe_b64encode(said if isinstance(said, bytes) else json.dumps(said).encode())
            .decode()
            .rstrip("=")
        )

    forged = [f"{encoded({**header_of(token), 'alg': alg})}.{payload}.{signature}" for alg in
              ("EdDSA", "Ed25519", "ES256", "PS256", "none")]  # fmt: skip
    start = f"{encoded({**header_of(token), 'alg': 'HS256'})}.{payload}"
    forged += [f"{start}.{encoded(hmac.digest(key, start.encode(), hashlib.sha256))}" for key in secrets]
    forged += [f"{encoded({**header_of(token), 'kid': signing_key})}.{payload}.{signature}"]
    for text in forged:
        assert (await api.get(ME, headers=bearer({"access_token": text}))).status_code == 401, text
    assert (await api.get(ME, headers=bearer({"access_token": token}))).status_code == 200


def test_fapi2_signs_nothing_by_rs256() -> None:
    """The profile names the field; ES256 and Ed25519 keep it."""
    for alg, said in (("RS256", True), ("ES256", False), ("ed25519", False)):
        client = OAuthClient(name="Bank", profile="fapi2", access_token_alg=alg)
        assert ("access_token_alg" in {error.field for error in profiles.missed(client, "fapi2")}) is said
