"""Dynamic: clients that register themselves (OpenID Connect Registration, RFC 7591), with response_type=code.

The suite's clients send no PKCE: the server has ``IRONAUTH_REGISTRATION_WITHOUT_PKCE`` set. Without it every client
that registers itself has to send it.
"""

import base64
import json
import secrets
import time
from typing import Any, Final

import httpx
from joserfc import jwt

from tokens.oauth.tests.openid.browser import Browser
from tokens.oauth.tests.openid.fapi2_client import TYPE, key_pair
from tokens.oauth.tests.openid.plans import basic_requests, config
from tokens.oauth.tests.openid.registry import Modules, Plan, Trial
from tokens.oauth.tests.openid.relying_party import RelyingParty, error_of, invalid_grant
from tokens.oauth.tests.openid.site import CALLBACK, ISSUER, Site

MODULES: Final = Modules()
PLAN: Final = Plan("oidcc-dynamic-certification-test-plan", "Dynamic", (MODULES,))
REGISTER: Final = "/oauth/register"
#: Seconds in which a server follows a rotation, on a machine with everything else to do.
FOLLOWS_S: Final = 60.0
_KEYS: Final = "an address of keys is not fetched: keys are registered by value, and changed as RFC 7592 has it"
_FETCH: Final = "this server fetches no address that a request names"
_SHOWN: Final = (
    "a stranger's picture and links would borrow this site's good name: "
    "such a client is shown by its host, as unverified"
)


class Registered(RelyingParty):
    """A client that has registered itself; as the suite's, it keeps a secret and sends no PKCE."""

    def make(self, site: Site, **said: Any) -> dict[str, Any]:
        """Register the client."""
        answer = register(self.http, **said)
        assert answer.status_code == 201, answer.text
        made = answer.json()
        assert len(made["client_id"]) > 8
        for name, value in said.items():
            assert made[name] == value, (name, made)
        return {
            "client_secret": "",
            **made,
            "id_token_alg": made["id_token_signed_response_alg"],
            "authorization_signed_response_alg": "",
        }


def register(http: httpx.Client, **said: Any) -> httpx.Response:
    """Register a client; return the answer."""
    given = {"client_name": f"App {secrets.token_hex(3)}", "redirect_uris": [CALLBACK], **said}
    return http.post(REGISTER, json=given)


class Signing(Registered):
    """One that proves who it is by an assertion."""

    def token(self, **parameters: str) -> httpx.Response:
        """Ask the token endpoint."""
        now = int(time.time())
        claims = {
            "iss": self.client_id, "sub": self.client_id, "aud": ISSUER, "jti": secrets.token_urlsafe(16),
            "iat": now, "exp": now + 60,
        }  # fmt: skip
        signed = jwt.encode({"alg": "ES256"}, claims, key_pair("ES256", 3), algorithms=["ES256"])
        body = {**parameters, "client_assertion": signed, "client_assertion_type": TYPE}
        return self.http.post(self.path("token_endpoint"), data=body)


@MODULES.add(
    "oidcc-discovery-endpoint-verification", "The metadata as in Config, and where clients register themselves."
)
def discovery(trial: Trial) -> None:
    """By https, at the issuer."""
    config.discovery(trial)
    with trial.site.new_http() as http:
        assert http.get(config.DOCUMENT).json()["registration_endpoint"] == f"{ISSUER}{REGISTER}"


@MODULES.add("oidcc-server", "The whole flow of a client that has registered itself.")
def server(trial: Trial) -> None:
    """Without PKCE; one that keeps no secret is told what is missing."""
    client, browser = Registered(trial.site), trial.browser()
    client.userinfo(client.sign_in(browser))
    public = Registered(trial.site, token_endpoint_auth_method="none")
    asked = public.request()
    assert "code_challenge" not in asked
    public.refused(browser.authorize(asked), asked, "invalid_request")


@MODULES.add(
    "oidcc-ensure-client-assertion-with-iss-aud-succeeds",
    "The flow of one with private_key_jwt; aud of its assertion is the issuer.",
)
def assertion(trial: Trial) -> None:
    """Its key is registered by value."""
    public = {**key_pair("ES256", 3).as_dict(private=False), "kid": "k-3", "alg": "ES256", "use": "sig"}
    client = Signing(trial.site, token_endpoint_auth_method="private_key_jwt", jwks={"keys": [public]})
    client.userinfo(client.sign_in(trial.browser()))


@MODULES.add("oidcc-idtoken-rs256", "A client that registers RS256 for its ID tokens gets it.")
def idtoken_rs256(trial: Trial) -> None:
    """And a client that registers another gets that."""
    for alg in ("RS256", "EdDSA"):
        client = Registered(trial.site, id_token_signed_response_alg=alg)
        client.id_token_alg = alg
        client.sign_in(trial.browser())


@MODULES.add(
    "oidcc-idtoken-unsigned",
    "Whether an unsigned ID token can be had.",
    skipped="`none` is not among `id_token_signing_alg_values_supported`",
)
def idtoken_unsigned(trial: Trial) -> None:
    """It cannot: not even registered."""
    with trial.site.new_http() as http:
        error_of(register(http, id_token_signed_response_alg="none"), "invalid_client_metadata")


@MODULES.add(
    "oidcc-ensure-redirect-uri-in-authorization-request", "Without redirect_uri nobody is led anywhere: a page."
)
def redirect_uri_needed(trial: Trial) -> None:
    """Also where one address alone is registered."""
    basic_requests.stops_at_a_page(trial, Registered(trial.site).request(redirect_uri=None))


@MODULES.add(
    "oidcc-ensure-request-object-with-redirect-uri",
    "A registered address in the object and another outside: honoured, or a page; never ignored.",
    skipped=basic_requests.UNSIGNED,
)
def request_object(trial: Trial) -> None:
    """The address outside gets nothing."""
    basic_requests.request_object_with_redirect_uri(trial)


@MODULES.add("oidcc-redirect-uri-query-OK", "A registered address with a query: the answer has both.")
def query_kept(trial: Trial) -> None:
    """The query comes first."""
    address = f"{CALLBACK}?foo=bar"
    client, browser = Registered(trial.site, redirect_uris=[address]), trial.browser()
    asked = client.request(redirect_uri=address)
    answer = browser.authorize(asked)
    assert (answer.where, answer.parameters["foo"], answer.parameters["state"]) == (CALLBACK, "bar", asked["state"])
    said = client.tokens(client.redeem(answer.parameters["code"], redirect_uri=address))
    client.id_claims(said, asked["nonce"])


@MODULES.add("oidcc-redirect-uri-query-added", "The registered address with a query that was added: a page.")
def query_added(trial: Trial) -> None:
    """It is compared character by character."""
    basic_requests.stops_at_a_page(trial, Registered(trial.site).request(redirect_uri=f"{CALLBACK}?foo=bar"))


@MODULES.add("oidcc-redirect-uri-query-mismatch", "The registered address with another query: a page.")
def query_mismatch(trial: Trial) -> None:
    """It is compared character by character."""
    client = Registered(trial.site, redirect_uris=[f"{CALLBACK}?foo=bar"])
    basic_requests.stops_at_a_page(trial, client.request(redirect_uri=f"{CALLBACK}?bar=foo"))


@MODULES.add("oidcc-redirect-uri-regfrag", "An address with a fragment is not registered.")
def fragment(trial: Trial) -> None:
    """The same without it is."""
    with trial.site.new_http() as http:
        error_of(register(http, redirect_uris=[f"{CALLBACK}#foobar"]), "invalid_redirect_uri")
        assert register(http, redirect_uris=[f"{CALLBACK}/foobar"]).status_code == 201


@MODULES.add("oidcc-refresh-token", "Refresh tokens; another client's is refused.")
def refresh(trial: Trial) -> None:
    """Of two clients."""
    grants = ["authorization_code", "refresh_token"]
    first, second = (Registered(trial.site, grant_types=grants) for _ in range(2))
    said = first.sign_in(trial.browser(), scope="openid offline_access", prompt="consent")
    renewed = first.tokens(first.token(grant_type="refresh_token", refresh_token=said["refresh_token"]))
    first.userinfo({**renewed, "claims": said["claims"]})
    invalid_grant(second.token(grant_type="refresh_token", refresh_token=renewed["refresh_token"]))


def _refused(name: str, checks: str, failed: str, **said: Any) -> None:
    """Add a module whose registration is refused."""

    def run(trial: Trial) -> None:
        with trial.site.new_http() as http:
            error_of(register(http, **said), "invalid_client_metadata")

    MODULES.add(name, checks, failed=failed)(run)


_ADDRESS: Final = "https://app.example.com/jwks.json"
_refused(
    "oidcc-registration-jwks-uri",
    "Keys that are registered by their address.",
    _KEYS,
    token_endpoint_auth_method="private_key_jwt",
    jwks_uri=_ADDRESS,
)
_refused(
    "oidcc-refresh-token-rp-key-rotation",
    "The keys at a registered address are changed by the client.",
    _KEYS,
    token_endpoint_auth_method="private_key_jwt",
    jwks_uri=_ADDRESS,
)
_SECTOR: Final = {"subject_type": "pairwise", "sector_identifier_uri": "https://app.example.com/sector.json"}
_refused(
    "oidcc-registration-sector-uri",
    "A sector that is registered by the address of its list.",
    "the list is not fetched: clients share pairwise subjects where staff give them the same sector",
    **_SECTOR,
)


@MODULES.add("oidcc-registration-sector-bad", "A sector whose list has not the client's address is refused.")
def sector_bad(trial: Trial) -> None:
    """So is every other; without one the client is registered."""
    with trial.site.new_http() as http:
        error_of(register(http, **_SECTOR), "invalid_client_metadata")
        assert register(http, subject_type="pairwise").status_code == 201


def _not_shown(name: str, member: str) -> None:
    """Add a module that asks for something of the client on the first page."""

    def run(trial: Trial) -> None:
        address = "https://app.example.com/about-us"
        with trial.site.new_http() as http:
            made = register(http, **{member: address}).json()
        page = trial.browser().open({**Registered(trial.site).request(), "client_id": made["client_id"]})
        assert page.status_code == 200
        assert address not in page.text

    MODULES.add(name, f"`{member}` of the client is shown where people sign in.", failed=_SHOWN)(run)


_not_shown("oidcc-registration-logo-uri", "logo_uri")
_not_shown("oidcc-registration-policy-uri", "policy_uri")
_not_shown("oidcc-registration-tos-uri", "tos_uri")


def _by_address(name: str, checks: str) -> None:
    """Add a module whose request object is at an address."""

    def run(trial: Trial) -> None:
        client = Registered(trial.site)
        asked = client.request(request_uri="https://app.example.com/request.jwt")
        client.refused(trial.browser().authorize(asked), asked, "request_uri_not_supported")

    MODULES.add(name, checks, failed=_FETCH)(run)


_by_address("oidcc-request-uri-unsigned", "An unsigned request object at an address.")
_by_address("oidcc-request-uri-signed-rs256", "A request object at an address, signed by RS256.")


@MODULES.add("oidcc-server-rotate-keys", "Rotated keys are in the key set, and sign what comes afterwards.")
def rotated(trial: Trial) -> None:
    """By the command that operators run."""
    client, browser = Registered(trial.site), trial.browser()
    before = _signed_by(client, browser)
    trial.site.manage("rotate_signing_key", "--alg", "RS256", "--now")
    deadline = time.monotonic() + FOLLOWS_S
    while (now := _signed_by(client, browser)) == before:
        assert time.monotonic() < deadline, "the server signs with the former key"
    keys = client.http.get(client.path("jwks_uri")).json()["keys"]
    assert {before, now} <= {key["kid"] for key in keys}


def _signed_by(client: RelyingParty, browser: Browser) -> str:
    """Return the key that has signed an ID token, which was verified."""
    header = client.sign_in(browser)["id_token"].split(".")[0]
    return str(json.loads(base64.urlsafe_b64decode(header + "=="))["kid"])


@MODULES.add(
    "oidcc-userinfo-rs256",
    "A client that registers RS256 for userinfo gets a signed answer.",
    failed="userinfo answers plain JSON over TLS; `userinfo_signing_alg_values_supported` is not offered",
)
def userinfo_rs256(trial: Trial) -> None:
    """What it registers is ignored, and not repeated to it as if it counted (RFC 7591 §3.2.1)."""
    with trial.site.new_http() as http:
        made = register(http, userinfo_signed_response_alg="RS256").json()
    assert "userinfo_signed_response_alg" not in made
    assert "userinfo_signing_alg_values_supported" not in trial.client().metadata
