"""Config: what the discovery document has to say."""

from typing import Final

from tokens.oauth.tests.openid.registry import Modules, Plan, Trial
from tokens.oauth.tests.openid.site import ISSUER

MODULES: Final = Modules()
PLAN: Final = Plan("oidcc-config-certification-test-plan", "Config", (MODULES,))
DOCUMENT: Final = "/.well-known/openid-configuration"
#: OpenID Connect Discovery 1.0 §3: what has to be there.
REQUIRED: Final = (
    "issuer", "authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri", "scopes_supported",
    "response_types_supported", "subject_types_supported", "id_token_signing_alg_values_supported", "claims_supported",
)  # fmt: skip
PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})


@MODULES.add(
    "oidcc-discovery-endpoint-verification",
    "Issuer, addresses by https, RS256, and a key set with public keys alone, each with a kid of its own.",
)
def discovery(trial: Trial) -> None:
    """Check the document and the key set."""
    with trial.site.new_http() as http:
        answer = http.get(DOCUMENT)
        assert answer.status_code == 200
        assert answer.headers["content-type"].split(";")[0] == "application/json"
        said = answer.json()
        keys = http.get(said["jwks_uri"]).json()["keys"]
    assert set(REQUIRED) <= said.keys()
    assert said["issuer"] == ISSUER
    addresses = [value for name, value in said.items() if name.endswith(("_endpoint", "_uri"))]
    assert len(addresses) >= 4
    assert all(each.startswith(f"{ISSUER}/") for each in addresses)
    assert not [name for name, value in said.items() if value in ([], "", None)]
    assert "code" in said["response_types_supported"]
    assert set(said["subject_types_supported"]) <= {"public", "pairwise"}
    assert "RS256" in said["id_token_signing_alg_values_supported"]
    assert "none" not in said["id_token_signing_alg_values_supported"]
    assert "openid" in said["scopes_supported"]
    assert said["claims_parameter_supported"] in (True, False)
    assert said.get("request_uri_parameter_supported") is not None  # left out it would be true
    check_keys(keys)
    assert {key.get("alg") for key in keys} & set(said["id_token_signing_alg_values_supported"])


def check_keys(keys: list[dict[str, str]]) -> None:
    """Check that the keys are public, whole and told apart by their kid."""
    assert keys
    assert not [key for key in keys if PRIVATE & key.keys()]
    kids = [key["kid"] for key in keys]
    assert len(set(kids)) == len(kids)
    members = {"RSA": {"n", "e"}, "EC": {"crv", "x", "y"}, "OKP": {"crv", "x"}}
    assert all(members[key["kty"]] <= key.keys() for key in keys)
    assert all(key["use"] == "sig" for key in keys)
    assert {key["kty"] for key in keys} >= {"RSA"}
