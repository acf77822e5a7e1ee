"""Tokens that are bound to a certificate (RFC 8705 §3): good with it from a trusted proxy, and with nothing else."""

import base64
import hashlib
import uuid
from typing import Any

import httpx
import msgspec
import pytest
from asgiref.sync import sync_to_async
from cryptography.hazmat.primitives.serialization import Encoding
from joserfc.jwk import ECKey
from pytest_django import Settings

from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from tokens.access import codec
from tokens.access.codec import AccessClaims
from tokens.clients import profiles, rules, units
from tokens.clients.certificates.tests.material import DAY, certificate, pem_of
from tokens.clients.models import OAuthClient
from tokens.errors import InvalidToken
from tokens.oauth.conftest import app, gateway, wiki
from tokens.oauth.tests.apis import ORDERS, make_api
from tokens.oauth.tests.flow import INTROSPECT, TOKEN, Party, basic
from tokens.oauth.tests.proofs import new_key, proof, shown
from tokens.oauth.token.tests.test_token_code import a_code, said
from tokens.sessions import authentication
from tokens.sessions.models import Session
from tokens.tests.browser import ME, VERIFY, Member
from tokens.tests.machine import make_machine

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]
__all__ = ["app", "gateway", "wiki"]
USERINFO, USERS = "/oauth/userinfo", "/api/v1/users"
OURS, OTHER = (certificate(ECKey.generate_key("P-256")) for _ in range(2))
CERT, ANOTHER = ({"X-SSL-Client-Cert": pem_of(one), "X-SSL-Client-Verify": "NONE"} for one in (OURS, OTHER))
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
SCOPES = ["openid", "profile", "email", "offline_access", "account"]
BOUND = {"certificate_bound": True, "dpop": "off"}


def thumbprint(made: Any) -> str:
    """Return x5t#S256 as RFC 8705 §3.1 has it."""
    return base64.urlsafe_b64encode(hashlib.sha256(made.public_bytes(Encoding.DER)).digest()).rstrip(b"=").decode()


@pytest.fixture(autouse=True)
def proxied(settings: Settings) -> None:
    """The tests' requests come from a trusted proxy, and certificates are asked for."""
    settings.IRONAUTH_MTLS_ORIGIN = "https://mtls.id.example.com"
    settings.IRONAUTH_TRUSTED_PROXIES = ["127.0.0.1"]


async def binds(party: Party, **fields: Any) -> Party:
    """Have a client's tokens bound to certificates, for all scopes."""
    for name, value in {**BOUND, "scopes": SCOPES, **fields}.items():
        setattr(party.client, name, value)
    await sync_to_async(party.client.save)()
    return party


async def tokens_of(party: Party, member: Member, headers: dict[str, str] = CERT) -> dict[str, Any]:
    """Return what a client gets for a code by a connection with a certificate."""
    party.headers = headers
    answer = await party.redeem(await a_code(party, member, scope=" ".join(SCOPES)))
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def with_token(tokens: dict[str, Any], headers: dict[str, str] | None = None) -> dict[str, str]:
    """Return the headers of a request with the access token, and what the proxy says."""
    return {"Authorization": f"Bearer {tokens['access_token']}", **(headers or {})}


async def test_a_token_is_good_with_its_certificate_alone(wiki: Party, api: httpx.AsyncClient, member: Member) -> None:
    """Warm and cold, however often it was good before: no answer is repeated for who has the text alone."""
    tokens = await tokens_of(await binds(wiki), member)
    cnf = {"x5t#S256": thumbprint(OURS)}
    assert (tokens["token_type"], said(tokens["access_token"])["cnf"]) == ("Bearer", cnf)
    for _ in ("warm", "cold"):
        for path in (ME, USERINFO, VERIFY):
            for _ in range(3):
                assert (await api.get(path, headers=with_token(tokens, CERT))).status_code in (200, 204), path
                assert authentication.peek(tokens["access_token"]) is None
                assert authentication.answers_of(tokens["access_token"].encode()) is None
                for wrong in ({}, ANOTHER, {"X-SSL-Client-Cert": "x"}, {"X-SSL-Client-Verify": "SUCCESS"}):
                    answer = await api.get(path, headers=with_token(tokens, wrong))
                    assert answer.status_code == 401, (path, wrong)
                    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
        token_cache().clear()


async def test_in_front_of_another_api(wiki: Party, api: httpx.AsyncClient, member: Member) -> None:
    """A proxy that names an API is told yes for the connection that shows the certificate, and for no other."""
    await sync_to_async(make_api)()
    await binds(wiki, scopes=["openid", "orders:read"])
    wiki.headers = CERT
    code = await a_code(wiki, member, scope="openid orders:read", resources=ORDERS)
    tokens = (await wiki.redeem(code)).json()
    assert said(tokens["access_token"])["cnf"] == {"x5t#S256": thumbprint(OURS)}
    for headers, status in ((CERT, 204), ({}, 401), (ANOTHER, 401), (CERT, 204)):
        answer = await api.get(VERIFY, params={"resource": ORDERS}, headers=with_token(tokens, headers))
        assert answer.status_code == status, headers


async def test_userinfo_by_a_form(wiki: Party, api: httpx.AsyncClient, member: Member) -> None:
    """The token in the body needs the certificate too."""
    given = {"access_token": (await tokens_of(await binds(wiki), member))["access_token"]}
    assert (await api.post(USERINFO, data=given, headers=CERT)).status_code == 200
    for wrong in ({}, ANOTHER):
        assert (await api.post(USERINFO, data=given, headers=wrong)).status_code == 401


async def test_in_a_cookie(wiki: Party, api: httpx.AsyncClient, member: Member) -> None:
    """A browser that sends the text has no certificate."""
    cookie = {"Cookie": f"access_token={(await tokens_of(await binds(wiki), member))['access_token']}"}
    for path in (ME, VERIFY):
        assert (await api.get(path, headers=cookie)).status_code == 401


async def test_nobody_but_the_proxy_is_believed(
    wiki: Party, api: httpx.AsyncClient, member: Member, settings: Settings
) -> None:
    """The certificate itself is no secret: its header counts from trusted proxies, and where the setting is."""
    tokens = await tokens_of(await binds(wiki), member)
    for name, value in (("IRONAUTH_TRUSTED_PROXIES", ["10.0.0.0/8"]), ("IRONAUTH_MTLS_ORIGIN", "")):
        before = getattr(settings, name)
        setattr(settings, name, value)
        for path in (ME, USERINFO, VERIFY):
            assert (await api.get(path, headers=with_token(tokens, CERT))).status_code == 401, (path, name)
        assert (await wiki.redeem(await a_code(wiki, member))).json()["error"] == "invalid_request"
        setattr(settings, name, before)
    assert (await api.get(ME, headers=with_token(tokens, CERT))).status_code == 200


@pytest.mark.parametrize(("after", "status"), [(DAY * 0.9, 200), (DAY * 1.1, 400)])
async def test_a_certificate_in_force(wiki: Party, member: Member, after: Any, status: int) -> None:
    """One that has ended binds nothing."""
    await binds(wiki)
    with clock.shifted(after.total_seconds()):
        wiki.headers = CERT
        assert (await wiki.redeem(await a_code(wiki, member))).status_code == status


async def test_the_token_endpoint_asks_for_one(wiki: Party, member: Member) -> None:
    """Without one the request is refused, and its code not used up."""
    await binds(wiki)
    code = await a_code(wiki, member)
    assert (await wiki.redeem(code)).json()["error"] == "invalid_request"
    wiki.headers = CERT
    assert (await wiki.redeem(code)).status_code == 200


async def test_other_clients_pay_and_get_nothing(wiki: Party, api: httpx.AsyncClient, member: Member) -> None:
    """A certificate that comes with the request of a client whose tokens are not bound changes nothing."""
    wiki.client.scopes = SCOPES
    await sync_to_async(wiki.client.save)()
    tokens = await tokens_of(wiki, member)
    assert "cnf" not in said(tokens["access_token"])
    for headers in ({}, CERT, ANOTHER):
        assert (await api.get(ME, headers=with_token(tokens, headers))).status_code == 200
    assert authentication.answers_of(tokens["access_token"].encode())


async def test_introspection(wiki: Party, gateway: Party, member: Member) -> None:
    """An API is told of the certificate; the token is a bearer token by its type (RFC 8705 §3.2)."""
    tokens = await tokens_of(await binds(wiki), member)
    found = await gateway.introspect(tokens["access_token"])
    assert (found["active"], found["token_type"], found["cnf"]) == (True, "Bearer", {"x5t#S256": thumbprint(OURS)})
    assert "cnf" not in await wiki.introspect(tokens["refresh_token"])


async def test_a_proof_is_no_certificate(wiki: Party, api: httpx.AsyncClient, member: Member) -> None:
    """Nobody makes a bound token good by a proof of a key of their own, nor one of a key by a certificate."""
    tokens = await tokens_of(await binds(wiki), member)
    headers = shown(tokens["access_token"], new_key(), "GET", ME)
    for more in ({}, CERT):
        assert (await api.get(ME, headers={**headers, **more})).status_code == 401
    await binds(wiki, certificate_bound=False, dpop="required")
    proved = await tokens_of(wiki, member, {"DPoP": proof(new_key(), "POST", TOKEN)})
    assert "jkt" in said(proved["access_token"])["cnf"]
    assert (await api.get(ME, headers=with_token(proved, CERT))).status_code == 401


async def test_refresh_tokens_of_public_clients_are_bound(app: Party, member: Member) -> None:
    """RFC 8705 §4: without the certificate nothing is refreshed, and nothing used up."""
    tokens = await tokens_of(await binds(app), member)
    assert (await Session.objects.aget(client_id=str(app.client.pk))).dpop_jkt == thumbprint(OURS)
    for headers, error in (({}, "invalid_request"), (ANOTHER, "invalid_grant")):
        app.headers = headers
        assert (await app.refresh(tokens["refresh_token"])).json()["error"] == error
    app.headers = CERT
    fresh = (await app.refresh(tokens["refresh_token"])).json()
    assert said(fresh["access_token"])["cnf"] == {"x5t#S256": thumbprint(OURS)}
    await binds(app, certificate_bound=False)  # the session stays bound, whatever becomes of the client
    for headers in ({}, CERT):
        app.headers = headers
        assert (await app.refresh(fresh["refresh_token"])).json()["error"] == "invalid_grant"


async def test_those_of_confidential_clients_are_not(wiki: Party, member: Member) -> None:
    """They prove who they are in another way, and may change their certificate."""
    tokens = await tokens_of(await binds(wiki), member)
    wiki.headers = ANOTHER
    fresh = (await wiki.refresh(tokens["refresh_token"])).json()
    assert said(fresh["access_token"])["cnf"] == {"x5t#S256": thumbprint(OTHER)}


async def test_a_machine(api: httpx.AsyncClient, signing_key: str) -> None:
    """A client that administers by itself shows its certificate with each request."""
    client, _ = await make_machine(api, "users:read")
    for name, value in BOUND.items():
        setattr(client, name, value)
    await sync_to_async(client.save)()
    secret = await sync_to_async(_new_secret)(client)
    asked = {"grant_type": "client_credentials"}
    answer = await api.post(TOKEN, data=asked, headers={**basic(str(client.pk), secret), **CERT})
    assert answer.status_code == 200, answer.text
    for _ in range(2):
        assert (await api.get(USERS, headers=with_token(answer.json(), CERT))).status_code == 200
        for wrong in ({}, ANOTHER):
            assert (await api.get(USERS, headers=with_token(answer.json(), wrong))).status_code == 401


def _new_secret(client: OAuthClient) -> str:
    return units.first_secret(client)


async def test_an_exchange_needs_the_certificate(wiki: Party, member: Member) -> None:
    """RFC 8693: a stolen token is not exchanged for one that is not bound."""
    await binds(wiki, grants=[*wiki.client.grants, "urn:ietf:params:oauth:grant-type:token-exchange"])
    tokens = await tokens_of(wiki, member)
    kind = "urn:ietf:params:oauth:token-type:access_token"
    given = {"grant_type": wiki.client.grants[-1], "subject_token": tokens["access_token"], "subject_token_type": kind}
    wiki.headers = ANOTHER
    assert (await wiki.post(TOKEN, **given)).json()["error"] == "invalid_request"
    wiki.headers = CERT
    answer = await wiki.post(TOKEN, **given)
    assert said(answer.json()["access_token"])["cnf"] == {"x5t#S256": thumbprint(OURS)}
    await binds(wiki, certificate_bound=False)
    assert (await wiki.post(TOKEN, **given)).json()["error"] == "invalid_request"


async def test_a_device(app: Party, member: Member) -> None:
    """What begins with a certificate goes on with that one alone."""
    await binds(app, grants=[DEVICE_CODE, "refresh_token"], redirect_uris=[], scopes=["openid"])
    app.headers = CERT
    begun = (await app.post("/oauth/device_authorization", scope="openid")).json()
    given = {"grant_type": DEVICE_CODE, "device_code": begun["device_code"]}
    for headers, error in (({}, "invalid_request"), (ANOTHER, "invalid_grant"), (CERT, "authorization_pending")):
        app.headers = headers
        assert (await app.post(TOKEN, **given)).json()["error"] == error


async def test_callers_of_introspection_prove_themselves_as_ever(wiki: Party, member: Member) -> None:
    """The setting is about tokens: asking about them needs the client's own proof, with or without a certificate."""
    tokens = await tokens_of(await binds(wiki), member)
    for headers in ({}, CERT):
        asked = {"client_id": str(wiki.client.pk), "token": tokens["access_token"]}
        answer = await wiki.api.post(INTROSPECT, data=asked, headers=headers)
        assert answer.status_code == 401


def problems(**fields: Any) -> list[tuple[str, str]]:
    """Return what the rules say of a client's binding."""
    client = OAuthClient(name="Bank", redirect_uris=["https://bank.example.com/cb"], **fields)
    return [(one.field, one.code) for one in rules.problems_of(client) if one.field == "certificate_bound"]


async def test_rules(settings: Settings, signing_key: str) -> None:
    """One binding at a time, and only where certificates reach this server."""

    def judged() -> None:
        assert problems(**BOUND) == []
        for policy in ("optional", "required"):
            assert problems(certificate_bound=True, dpop=policy) == [("certificate_bound", "two_bindings")]
            assert problems(dpop=policy) == []
        settings.IRONAUTH_MTLS_ORIGIN = ""
        assert problems(**BOUND) == [("certificate_bound", "no_mtls")]
        assert problems(dpop="off") == []

    await sync_to_async(judged)()


@pytest.mark.parametrize(
    ("fields", "kept"),
    [({"dpop": "required"}, True), (BOUND, True), ({"dpop": "off"}, False), ({"dpop": "optional"}, False)],
)
@pytest.mark.parametrize("profile", ["fapi2", "fapi2-message-signing"])
def test_fapi_demands_one_of_both(fields: dict[str, Any], kept: bool, profile: str) -> None:
    """FAPI 2.0 §5.3.2.1: tokens are sender-constrained, by DPoP or by certificate."""
    client = OAuthClient(**{**profiles.initial(profile), **fields})
    assert ("dpop" not in [one.field for one in profiles.missed(client, profile)]) is kept


@pytest.mark.parametrize(
    "cnf", [{}, {"x5t": "x"}, {"jwk": "x"}, {"jkt": ""}, {"x5t#S256": ""}, {"jkt": "x", "x5t#S256": "y"}]
)
def test_what_is_bound_to_something_else_is_refused(cnf: dict[str, str], settings: Settings) -> None:
    """Nobody here can judge it."""
    now, whose = int(clock.unix()), uuid.uuid4()
    good = AccessClaims(
        iss=settings.IRONAUTH_ISSUER, sub=whose, aud="x", client_id="x", iat=now, exp=now + 60, jti="x", scope="",
        epoch=0, roles=(), sid=uuid.uuid4(), cnf={"jkt": "x"},
    )  # fmt: skip
    codec.check_claims(good, now)
    with pytest.raises(InvalidToken):
        codec.check_claims(msgspec.structs.replace(good, cnf=cnf), now)


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/.well-known/oauth-protected-resource"])
async def test_metadata(api: httpx.AsyncClient, settings: Settings, signing_key: str, path: str) -> None:
    """Said where certificates are asked for, and not elsewhere."""
    assert (await api.get(path)).json()["tls_client_certificate_bound_access_tokens"] is True
    settings.IRONAUTH_MTLS_ORIGIN = ""
    assert "tls_client_certificate_bound_access_tokens" not in (await api.get(path)).json()
