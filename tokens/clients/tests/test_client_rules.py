"""What a client may be: every rule on both sides of its boundary."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django import Settings

from tokens.clients import keys as client_keys
from tokens.clients import rules as client_rules
from tokens.clients.models import OAuthClient, default_grants
from tokens.oauth.tests.material import ED25519_JWK, REDIRECT_URI
from tokens.protocol import GrantType

#: RFC 7517 appendix A.1.
EC_JWK = {
    "kty": "EC",
    "crv": "P-256",
    "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
    "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM",
    "kid": "1",
}
#: An odd number of 2,048 bits; whether it has two prime factors is the client's business.
RSA_JWK = {"kty": "RSA", "n": "_" + "w" * 341, "e": "AQAB", "kid": "2"}
SHORT_RSA_JWK = {"kty": "RSA", "n": "_" + "w" * 170, "e": "AQAB"}
MACHINE: dict[str, Any] = {"grants": ["client_credentials"], "scopes": [], "redirect_uris": []}
DEVICE: dict[str, Any] = {"grants": [GrantType.DEVICE_CODE.value], "scopes": ["openid"], "redirect_uris": []}
CODE: dict[str, Any] = {"grants": ["authorization_code"], "scopes": ["openid"]}
PUBLIC: dict[str, Any] = {"auth_method": "none"}
KEYS: dict[str, Any] = {"auth_method": "private_key_jwt", "jwks": {"keys": [ED25519_JWK]}}
FAPI2: dict[str, Any] = {**KEYS, "profile": "fapi2", "require_par": True, "dpop": "required"}
PAIRWISE: dict[str, Any] = {"subject_type": "pairwise"}


def bad_fields(**fields: Any) -> list[str]:
    """Return the fields of a client that are complained about."""
    client = OAuthClient(**{"name": "Wiki", "redirect_uris": [REDIRECT_URI], **fields})
    problems = client_rules.problems_of(client)
    assert all(one.message.endswith(".") and one.code for one in problems)
    return [one.field for one in problems]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"name": "W"},
        {"name": "x" * 80},
        {"name": "Bücher & Co. 日本"},
        PUBLIC,
        {**PUBLIC, "redirect_uris": ["com.example.app:/cb"], "post_logout_redirect_uris": ["com.example.app:/bye"]},
        {"profile": "oidc", "require_pkce": False},
        {"profile": "oidc"},
        {**PUBLIC, "profile": "native", "redirect_uris": ["com.example.app:/cb"]},
        FAPI2,
        {**FAPI2, "jwks": {"keys": [{**RSA_JWK, "alg": "PS256"}]}},
        {**FAPI2, "jwks": {"keys": [RSA_JWK]}},
        {**FAPI2, "jwks": {"keys": [{**RSA_JWK, "alg": ""}]}},
        {**FAPI2, "jwks": {"keys": [{**ED25519_JWK, "alg": ""}]}},
        MACHINE,
        {**MACHINE, "resource_server": True},
        {**MACHINE, "scopes": ["reports:read"]},
        DEVICE,
        {**DEVICE, **PUBLIC},
        {**DEVICE, "grants": [GrantType.DEVICE_CODE.value, "refresh_token"], "scopes": ["offline_access"]},
        CODE,
        {**CODE, "grants": ["authorization_code", "client_credentials"]},
        {"grants": [GrantType.TOKEN_EXCHANGE.value], "scopes": ["email"], "redirect_uris": []},
        {"scopes": []},
        {"scopes": ["a" * 64]},
        {"redirect_uris": [f"https://app.example.com/{n}" for n in range(50)]},
        {"backchannel_logout_uri": "https://app.example.com/out"},
        KEYS,
        {**KEYS, "jwks": {"keys": [EC_JWK, RSA_JWK]}},
        PAIRWISE,
        {**PAIRWISE, "sector": "example.com", "redirect_uris": [REDIRECT_URI, "https://b.example/cb"]},
        {"scopes": ["openid", "account"]},
        {"access_token_s": 1},
        {"access_token_s": 600},
        {"session_idle_s": 60, "session_absolute_s": 60},
        {"session_absolute_s": 400 * 86_400},
        {"session_absolute_s": 60},
    ],
)
def test_good_clients(fields: dict[str, Any]) -> None:
    """Nothing is said of what an application may be."""
    assert bad_fields(**fields) == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({**PUBLIC, "resource_server": True}, "resource_server"),
        ({"profile": "implicit"}, "profile"),
        ({"require_pkce": False}, "require_pkce"),
        ({**PUBLIC, "profile": "oidc"}, "profile"),
        ({"profile": "native"}, "auth_method"),
        ({**FAPI2, "auth_method": "secret", "jwks": None}, "auth_method"),
        ({**FAPI2, "jwks": {"keys": [{**RSA_JWK, "alg": "RS256"}]}}, "jwks"),
        ({**FAPI2, "jwks": {"keys": [{"kty": ["RSA"]}, "key"]}}, "jwks"),
        ({**FAPI2, "require_pkce": False}, "require_pkce"),
        ({**FAPI2, "require_par": False}, "require_par"),
        ({**FAPI2, "dpop": "optional"}, "dpop"),
        ({**FAPI2, "redirect_uris": ["http://127.0.0.1/cb"]}, "redirect_uris"),
        ({"name": ""}, "name"),
        ({"name": "x" * 81}, "name"),
        ({"name": " Wiki"}, "name"),
        ({"name": "Wi\nki"}, "name"),
        ({"name": "Wiki \u202e"}, "name"),
        ({"auth_method": "password"}, "auth_method"),
        ({"dpop": "yes"}, "dpop"),
        ({"id_token_alg": "none"}, "id_token_alg"),
        ({"id_token_alg": "HS256"}, "id_token_alg"),
        ({"subject_type": "x"}, "subject_type"),
        ({"grants": []}, "grants"),
        ({**CODE, "grants": ["authorization_code", "password"]}, "grants"),
        ({**CODE, "grants": ["authorization_code", "implicit"]}, "grants"),
        ({**CODE, "grants": ["authorization_code", "authorization_code"]}, "grants"),
        ({**MACHINE, **PUBLIC}, "grants"),
        ({**CODE, **PUBLIC, "grants": ["authorization_code", GrantType.TOKEN_EXCHANGE.value]}, "grants"),
        ({**MACHINE, "grants": ["client_credentials", "refresh_token"]}, "grants"),
        ({**MACHINE, "grants": ["refresh_token"]}, "grants"),
        ({**MACHINE, "scopes": ["openid"]}, "scopes"),
        ({**CODE, "scopes": ["openid", "offline_access"]}, "scopes"),
        ({"scopes": ["open id"]}, "scopes"),
        ({"scopes": [""]}, "scopes"),
        ({"scopes": ['"']}, "scopes"),
        ({"scopes": ["\\"]}, "scopes"),
        ({"scopes": ["ü"]}, "scopes"),
        ({"scopes": ["a" * 65]}, "scopes"),
        ({"scopes": ["openid", "openid"]}, "scopes"),
        ({"scopes": [f"{n}".zfill(64) for n in range(4)]}, "scopes"),
        ({"redirect_uris": []}, "redirect_uris"),
        ({**MACHINE, "redirect_uris": [REDIRECT_URI]}, "redirect_uris"),
        ({"redirect_uris": [REDIRECT_URI, REDIRECT_URI]}, "redirect_uris"),
        ({"redirect_uris": ["com.example.app:/cb"]}, "redirect_uris"),
        ({"redirect_uris": ["http://app.example.com/cb"]}, "redirect_uris"),
        ({"redirect_uris": [f"https://app.example.com/{n}" for n in range(51)]}, "redirect_uris"),
        ({"post_logout_redirect_uris": ["https://app.example.com/#"]}, "post_logout_redirect_uris"),
        ({"post_logout_redirect_uris": ["com.example.app:/bye"]}, "post_logout_redirect_uris"),
        ({"backchannel_logout_uri": "http://app.example.com/out"}, "backchannel_logout_uri"),
        ({"backchannel_logout_uri": "http://127.0.0.1/out"}, "backchannel_logout_uri"),
        ({"backchannel_logout_uri": "com.example.app:/out"}, "backchannel_logout_uri"),
        ({"backchannel_logout_uri": "https://app.example.com/out#x"}, "backchannel_logout_uri"),
        ({"auth_method": "private_key_jwt"}, "jwks"),
        ({"jwks": {"keys": [ED25519_JWK]}}, "jwks"),
        ({**KEYS, "jwks": {"keys": []}}, "jwks"),
        ({**PUBLIC, "require_pkce": False}, "require_pkce"),
        ({"sector": "example.com"}, "sector"),
        ({**PAIRWISE, "sector": "https://example.com"}, "sector"),
        ({**PAIRWISE, "sector": "Example.com"}, "sector"),
        ({**PAIRWISE, "redirect_uris": [REDIRECT_URI, "https://b.example/cb"]}, "sector"),
        ({**PAIRWISE, **MACHINE}, "sector"),
        ({**PAIRWISE, **PUBLIC, "redirect_uris": ["com.example.app:/cb"]}, "sector"),
        ({**PAIRWISE, "scopes": ["openid", "account"]}, "scopes"),
        ({"access_token_s": 0}, "access_token_s"),
        ({"access_token_s": 601}, "access_token_s"),
        ({"session_idle_s": 59}, "session_idle_s"),
        ({"session_idle_s": 400 * 86_400 + 1}, "session_idle_s"),
        ({"session_absolute_s": 59}, "session_absolute_s"),
        ({"session_absolute_s": 400 * 86_400 + 1}, "session_absolute_s"),
        ({"session_idle_s": 61, "session_absolute_s": 60}, "session_idle_s"),
        ({"session_idle_s": 30 * 86_400 + 1}, "session_idle_s"),
    ],
)
def test_bad_clients(fields: dict[str, Any], field: str) -> None:
    """Each rule that is broken is reported for its field, and nothing else is."""
    assert set(bad_fields(**fields)) == {field}


def test_everything_bad_is_named_at_once() -> None:
    """Anybody who typed it corrects it in one go; each bad address is named by itself."""
    found = bad_fields(
        name="", auth_method="x", grants=[], scopes=["a b"], redirect_uris=["x", "y"],
        post_logout_redirect_uris=["z"], backchannel_logout_uri="x", jwks={}, sector="x", access_token_s=0,
    )  # fmt: skip
    assert set(found) == {
        "name", "auth_method", "grants", "scopes", "redirect_uris", "post_logout_redirect_uris",
        "backchannel_logout_uri", "jwks", "sector", "access_token_s",
    }  # fmt: skip
    assert found.count("redirect_uris") == 2


def test_a_loopback_logout_address_in_development(settings: Settings) -> None:
    """There, and nowhere else, this server calls plain http on its own machine."""
    settings.DEBUG = True
    assert bad_fields(backchannel_logout_uri="http://127.0.0.1:9000/out") == []
    assert bad_fields(backchannel_logout_uri="http://app.example.com/out") == ["backchannel_logout_uri"]


@pytest.mark.parametrize("host", ["10.0.0.7", "169.254.169.254", "[fd00::1]", "localhost", "wiki.localhost"])
def test_a_logout_address_in_a_private_network(settings: Settings, host: str) -> None:
    """A host that is visibly not public is refused, unless its network is in the setting."""
    settings.IRONAUTH_LOGOUT_NETWORKS = []
    assert bad_fields(backchannel_logout_uri=f"https://{host}/out") == ["backchannel_logout_uri"]
    settings.IRONAUTH_LOGOUT_NETWORKS = ["10.0.0.0/8", "127.0.0.0/8", "169.254.169.254", "fd00::/16"]
    assert bad_fields(backchannel_logout_uri=f"https://{host}/out") == []


def test_the_access_token_setting_is_the_limit(settings: Settings) -> None:
    """A replaced key verifies for as long as the setting says, so no client's token may live longer."""
    settings.IRONAUTH_ACCESS_TOKEN_S = 3_600
    assert bad_fields(access_token_s=3_600) == []
    assert bad_fields(access_token_s=3_601) == ["access_token_s"]


@pytest.mark.django_db
@pytest.mark.parametrize("alg", ["ES256", "RS256"])
def test_an_algorithm_needs_a_key(alg: str) -> None:
    """Another one than Ed25519 is refused with the command that makes its key, and taken once that has run."""
    client = OAuthClient(name="Wiki", redirect_uris=[REDIRECT_URI], id_token_alg=alg)
    (problem,) = client_rules.problems_of(client)
    assert (problem.field, problem.code) == ("id_token_alg", "no_key")
    assert f"`manage.py create_signing_key --alg {alg}`" in problem.message
    call_command("create_signing_key", "--alg", alg, stdout=StringIO())
    assert client_rules.problems_of(client) == []


@pytest.mark.django_db
@pytest.mark.parametrize(("scopes", "bad"), [(["reports"], []), (["reports", "openid"], ["id_token_alg"])])
def test_a_client_without_id_tokens_needs_no_key_for_them(scopes: list[str], bad: list[str]) -> None:
    """A machine gets no ID token, so that nothing has to sign one; with the scope openid it may."""
    grants = [GrantType.CLIENT_CREDENTIALS.value] if not bad else default_grants()
    addresses = [REDIRECT_URI] if bad else []
    client = OAuthClient(name="Wiki", grants=grants, redirect_uris=addresses, scopes=scopes, id_token_alg="RS256")
    assert [problem.field for problem in client_rules.problems_of(client)] == bad


@pytest.mark.parametrize("key", [ED25519_JWK, EC_JWK, RSA_JWK])
def test_good_keys(key: dict[str, Any]) -> None:
    """The three kinds, with what else a published key may say."""
    alg = {"OKP": "EdDSA", "EC": "ES256", "RSA": "PS256"}[key["kty"]]
    assert client_keys.problem_of({"keys": [key]}) is None
    assert (
        client_keys.problem_of({"keys": [{**key, "use": "sig", "alg": alg, "key_ops": ["verify"], "x5t": 1}]}) is None
    )


@pytest.mark.parametrize(
    ("jwks", "remedy"),
    [
        (None, "JWK set"),
        ([], "JWK set"),
        ({}, "JWK set"),
        ({"keys": {}}, "JWK set"),
        ({"keys": []}, "1 to 10"),
        ({"keys": [{**EC_JWK, "kid": str(n)} for n in range(11)]}, "1 to 10"),
        ({"keys": [{**EC_JWK, "x": float("nan")}]}, "NaN, NUL"),
        ({"keys": [{**EC_JWK, "note": "\x00"}]}, "NaN, NUL"),
        ({"keys": [EC_JWK], "\ud800": 1}, "NaN, NUL"),
        ({"keys": ["x"]}, "is no object"),
        ({"keys": [{**ED25519_JWK, "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"}]}, "private part"),
        ({"keys": [{**RSA_JWK, "p": "x"}]}, "private part"),
        ({"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}, "private part"),
        ({"keys": [{"kty": "oct"}]}, "private part"),
        ({"keys": [{**ED25519_JWK, "crv": "X25519"}]}, "make one of these"),
        ({"keys": [{**EC_JWK, "crv": "P-384"}]}, "make one of these"),
        ({"keys": [{}]}, "make one of these"),
        ({"keys": [{**ED25519_JWK, "kty": 1}]}, "is no text"),
        ({"keys": [{**RSA_JWK, "n": "w" * 4_097}]}, "too long"),
        ({"keys": [{**ED25519_JWK, "alg": "ES256"}]}, "Ed25519 or EdDSA"),
        ({"keys": [{**RSA_JWK, "alg": "none"}]}, "PS256 or RS256"),
        ({"keys": [{**EC_JWK, "use": "enc"}]}, "not for signatures"),
        ({"keys": [{**EC_JWK, "key_ops": ["sign"]}]}, "not for signatures"),
        ({"keys": [{**ED25519_JWK, "x": ED25519_JWK["x"][:-1]}]}, "export it anew"),
        ({"keys": [{**ED25519_JWK, "x": ED25519_JWK["x"] + "="}]}, "export it anew"),
        ({"keys": [{**ED25519_JWK, "x": "ü"}]}, "export it anew"),
        ({"keys": [{"kty": "OKP", "crv": "Ed25519"}]}, "export it anew"),
        ({"keys": [{**EC_JWK, "y": EC_JWK["x"]}]}, "export it anew"),
        ({"keys": [SHORT_RSA_JWK]}, "2,048 to 8,192"),
        ({"keys": [{**RSA_JWK, "e": "AQ"}]}, "export it anew"),
        ({"keys": [{**RSA_JWK, "e": "Ag"}]}, "export it anew"),
        ({"keys": [EC_JWK, ED25519_JWK]}, "no kid"),
        ({"keys": [EC_JWK, EC_JWK]}, "its own"),
    ],
)
def test_bad_keys(jwks: Any, remedy: str) -> None:
    """No private part is ever stored, and no key that could not check an assertion."""
    problem = client_keys.problem_of(jwks)
    assert problem is not None
    assert remedy in problem
