"""Clients that show a certificate (RFC 8705): of their own key or an authority's, told by a trusted proxy alone."""

import datetime
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from joserfc.jwk import ECKey
from pytest_django import Settings
from structlog.testing import capture_logs

from tokens.clients import rules
from tokens.clients.certificates.presented import MAX_CHARACTERS
from tokens.clients.certificates.tests.material import DAY, SUBJECT, certificate, keys_of, pem_of
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.flow import TOKEN
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.proofs import new_key, proof

pytestmark = [pytest.mark.django_db(transaction=True)]
ORIGIN = "https://mtls.id.example.com"
KEY, OTHER = ECKey.generate_key("P-256"), ECKey.generate_key("P-256")
GRANT = {"grants": ["client_credentials"], "scopes": ["reports"]}
SELF, CHAIN = "self_signed_tls_client_auth", "tls_client_auth"


@pytest.fixture(autouse=True)
def proxied(settings: Settings) -> None:
    """The tests' requests come from a trusted proxy, and certificates are asked for."""
    settings.IRONAUTH_MTLS_ORIGIN = ORIGIN
    settings.IRONAUTH_TRUSTED_PROXIES = ["127.0.0.1"]


@pytest.fixture
async def bank(signing_key: str) -> OAuthClient:
    """A client with a certificate of its own key."""
    return (await sync_to_async(make_client)(auth_method=SELF, jwks=keys_of(OTHER, KEY), **GRANT))[0]


@pytest.fixture
async def shop(signing_key: str) -> OAuthClient:
    """A client with a certificate of an authority."""
    given = {"auth_method": CHAIN, "tls_client_auth_subject_dn": SUBJECT, **GRANT}
    return (await sync_to_async(make_client)(**given))[0]


async def asked(
    api: httpx.AsyncClient, client: OAuthClient, cert: str | None, verdict: str = "NONE", **more: str
) -> httpx.Response:
    """Ask for a token with what nginx would say of the connection."""
    told = {"X-SSL-Client-Verify": verdict, **({"X-SSL-Client-Cert": cert} if cert is not None else {})}
    given = {"grant_type": "client_credentials", "client_id": str(client.pk), **more}
    return await api.post(TOKEN, data=given, headers=told)


async def cause_of(api: httpx.AsyncClient, client: OAuthClient, cert: str | None, verdict: str = "NONE") -> str:
    """Return why the client is refused, "" when it is not."""
    with capture_logs() as logs:
        answer = await asked(api, client, cert, verdict)
    if answer.status_code == 200:
        return ""
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client"), answer.text
    (cause,) = [one["cause"] for one in logs if one["event"] == "client_refused"]
    return str(cause)


async def test_a_certificate_of_its_own_key(api: httpx.AsyncClient, bank: OAuthClient) -> None:
    """Anybody may have signed it, and anything is in it: the key is one of those that the client has registered."""
    for made in (certificate(KEY), certificate(KEY, "CN=anybody"), certificate(OTHER)):
        assert await cause_of(api, bank, pem_of(made), "FAILED:self-signed certificate") == ""
    stranger = pem_of(certificate(ECKey.generate_key("P-256")))
    assert await cause_of(api, bank, stranger, "SUCCESS") == "key"
    assert await cause_of(api, bank, None) == "certificate"


async def test_a_certificate_of_an_authority(api: httpx.AsyncClient, shop: OAuthClient) -> None:
    """Nginx has verified its chain, and the subject is the registered one, part by part."""
    right = pem_of(certificate(KEY))
    assert await cause_of(api, shop, right, "SUCCESS") == ""
    for verdict in ("NONE", "FAILED:self-signed certificate", "success", "SUCCESS,SUCCESS", ""):
        assert await cause_of(api, shop, right, verdict) == "subject", verdict
    for subject in (
        "CN=bank.example.com",
        f"{SUBJECT},C=DE",
        "CN=Bank.example.com,O=Bank",
        "O=Bank,CN=bank.example.com",
    ):
        assert await cause_of(api, shop, pem_of(certificate(KEY, subject)), "SUCCESS") == "subject", subject
    assert await cause_of(api, shop, None, "SUCCESS") == "certificate"


@pytest.mark.parametrize(
    ("begins", "ends", "cause"),
    [(-DAY, DAY, ""), (DAY, 2 * DAY, "certificate"), (-2 * DAY, -DAY, "certificate")],
)
async def test_out_of_force(
    api: httpx.AsyncClient, bank: OAuthClient, begins: datetime.timedelta, ends: datetime.timedelta, cause: str
) -> None:
    """One that is not in force yet, or any more, is none."""
    made = certificate(KEY, begins=begins, ends=ends)
    assert await cause_of(api, bank, pem_of(made)) == cause


async def test_headers_that_are_no_certificate(api: httpx.AsyncClient, bank: OAuthClient, shop: OAuthClient) -> None:
    """Not one certificate in PEM, two of them, or a longer header: nobody is anybody by it."""
    good = pem_of(certificate(KEY))
    begin, end = "-----BEGIN CERTIFICATE-----\n", "-----END CERTIFICATE-----\n"
    for text in (
        "", "x", "%", "%FF", good[:-40], f"{good},{good}", good + good, f"{good}x",
        f"{begin}AAAA\n{end}".replace("\n", "%0A"),
        f"{begin}{end}".replace("\n", "%0A"), good + "%0A" * (MAX_CHARACTERS // 3), "x" * 9_000,
    ):  # fmt: skip
        assert await cause_of(api, bank, text) == "certificate", text[:50]
        assert await cause_of(api, shop, text, "SUCCESS") == "certificate", text[:50]


async def test_from_nobody_else(
    api: httpx.AsyncClient, bank: OAuthClient, shop: OAuthClient, settings: Settings
) -> None:
    """Headers from a peer that is no trusted proxy, or where no certificates are asked for, are not read."""
    good = pem_of(certificate(KEY))
    for name, value in (
        ("IRONAUTH_TRUSTED_PROXIES", []),
        ("IRONAUTH_TRUSTED_PROXIES", ["10.0.0.0/8", "unix"]),
        ("IRONAUTH_MTLS_ORIGIN", ""),
    ):
        before = getattr(settings, name)
        setattr(settings, name, value)
        assert await cause_of(api, bank, good, "SUCCESS") == "certificate"
        assert await cause_of(api, shop, good, "SUCCESS") == "certificate"
        setattr(settings, name, before)
    assert await cause_of(api, bank, good) == ""


async def test_nothing_else_proves_it(api: httpx.AsyncClient, bank: OAuthClient, signing_key: str) -> None:
    """A secret does not, nor does a certificate prove a client that has another way."""
    good = pem_of(certificate(KEY))
    assert (await asked(api, bank, good, client_secret="x")).status_code == 401
    other = (await sync_to_async(make_client)(**GRANT))[0]
    assert await cause_of(api, other, good, "SUCCESS") == "no_credentials"


async def test_a_proof_for_the_alias(api: httpx.AsyncClient, bank: OAuthClient, settings: Settings) -> None:
    """A DPoP proof names the address that the metadata gave the client: the alias, or the issuer's."""
    for origin, status in ((ORIGIN, 200), ("http://localhost:8000", 200), ("https://other.example.com", 400)):
        headers = {
            "DPoP": proof(new_key(), "POST", TOKEN, htu=f"{origin}{TOKEN}"),
            "X-SSL-Client-Cert": pem_of(certificate(KEY)),
        }
        given = {"grant_type": "client_credentials", "client_id": str(bank.pk)}
        assert (await api.post(TOKEN, data=given, headers=headers)).status_code == status, origin
    settings.IRONAUTH_MTLS_ORIGIN = ""
    headers = {"DPoP": proof(new_key(), "POST", TOKEN, htu=f"{ORIGIN}{TOKEN}")}
    plain, secret = await sync_to_async(make_client)(**GRANT)
    given = {"grant_type": "client_credentials", "client_id": str(plain.pk), "client_secret": secret}
    assert (await api.post(TOKEN, data=given, headers=headers)).status_code == 400


async def test_metadata(api: httpx.AsyncClient, signing_key: str, settings: Settings) -> None:
    """The methods and aliases are there where certificates are asked for, and nowhere else."""
    found = (await api.get("/.well-known/openid-configuration")).json()
    assert found["mtls_endpoint_aliases"]["token_endpoint"] == f"{ORIGIN}{TOKEN}"
    assert {SELF, CHAIN} <= set(found["token_endpoint_auth_methods_supported"])
    settings.IRONAUTH_MTLS_ORIGIN = ""
    found = (await api.get("/.well-known/openid-configuration")).json()
    assert "mtls_endpoint_aliases" not in found
    assert not {SELF, CHAIN} & set(found["token_endpoint_auth_methods_supported"])


def problems(**fields: Any) -> list[tuple[str, str]]:
    """Return what is wrong with such a client."""
    client = OAuthClient(name="Bank", grants=["client_credentials"], scopes=["reports"], **fields)
    return [(one.field, one.code) for one in rules.problems_of(client)]


def test_rules(settings: Settings) -> None:
    """Each way has what it is judged by, and nothing of the other; neither is there without the setting."""
    keys = keys_of(KEY)
    assert problems(auth_method=SELF, jwks=keys) == []
    assert problems(auth_method=SELF) == [("jwks", "required")]
    assert problems(auth_method=CHAIN, tls_client_auth_subject_dn=SUBJECT) == []
    for text in ("", "bank", "CN=", f"CN=a,O={'b' * 600}"):
        assert problems(auth_method=CHAIN, tls_client_auth_subject_dn=text) == [
            ("tls_client_auth_subject_dn", "subject")
        ], text
    assert problems(auth_method=CHAIN, tls_client_auth_subject_dn=SUBJECT, jwks=keys) == [("jwks", "needless")]
    needless = [("tls_client_auth_subject_dn", "needless")]
    assert problems(auth_method=SELF, jwks=keys, tls_client_auth_subject_dn=SUBJECT) == needless
    settings.IRONAUTH_MTLS_ORIGIN = ""
    assert problems(auth_method=SELF, jwks=keys) == [("auth_method", "no_mtls")]
