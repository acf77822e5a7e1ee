"""Dynamic: clients that register themselves (OpenID Connect Registration, RFC 7591), with response_type=code.

The suite's clients send no PKCE: the server has ``IRONAUTH_REGISTRATION_WITHOUT_PKCE`` set. Without it every client
that registers itself has to send it.
"""

import base64
import json
import re
import secrets
import time
from html import unescape
from typing import Any, Final

import httpx
from joserfc import jwt
from joserfc.jwk import KeySet

from tokens.oauth.tests.material import PICTURE
from tokens.oauth.tests.openid.application import application
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
IMPLICIT: Final = (
    "it demands the response types `id_token` and `token id_token`, and the grant `implicit` (OpenID Connect Core "
    "§15.2). Tokens would be in addresses: RFC 9700 §2.1.2 advises against it, and OAuth 2.1 leaves it out"
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
    """One that proves who it is by an assertion, which its key of this ``number`` signs."""

    number = 3

    def token(self, **parameters: str) -> httpx.Response:
        """Ask the token endpoint."""
        now = int(time.time())
        claims = {
            "iss": self.client_id, "sub": self.client_id, "aud": ISSUER, "jti": secrets.token_urlsafe(16),
            "iat": now, "exp": now + 60,
        }  # fmt: skip
        header = {"alg": "ES256", "kid": f"k-{self.number}"}
        signed = jwt.encode(header, claims, key_pair("ES256", self.number), algorithms=["ES256"])
        body = {**parameters, "client_assertion": signed, "client_assertion_type": TYPE}
        return self.http.post(self.path("token_endpoint"), data=body)


def key_set(number: int) -> bytes:
    """Return the set of one public key, as it is served."""
    public = key_pair("ES256", number).as_dict(private=False)
    return json.dumps({"keys": [{**public, "kid": f"k-{number}", "alg": "ES256", "use": "sig"}]}).encode()


@MODULES.add(
    "oidcc-discovery-endpoint-verification",
    "The metadata as in Config, where clients register themselves, and the implicit flow.",
    failed=IMPLICIT,
)
def discovery(trial: Trial) -> None:
    """By https, at the issuer; of the flows there is the one by code."""
    config.discovery(trial)
    with trial.site.new_http() as http:
        said = http.get(config.DOCUMENT).json()
    assert said["registration_endpoint"] == f"{ISSUER}{REGISTER}"
    assert said["response_types_supported"] == ["code"]
    assert "implicit" not in said["grant_types_supported"]


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
    client = Signing(trial.site, token_endpoint_auth_method="private_key_jwt", jwks=json.loads(key_set(3)))
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


@MODULES.add("oidcc-registration-jwks-uri", "Keys that are registered by their address.")
def jwks_uri(trial: Trial) -> None:
    """They are fetched when the first assertion comes, and kept."""
    with application(trial.site) as app:
        address = app.serve("/jwks.json", "application/json", key_set(3))
        client = Signing(trial.site, token_endpoint_auth_method="private_key_jwt", jwks_uri=address)
        assert not app.asked
        client.userinfo(client.sign_in(trial.browser()))
        client.sign_in(trial.browser())
        assert app.asked == ["/jwks.json"]


@MODULES.add("oidcc-refresh-token-rp-key-rotation", "The keys at a registered address are changed by the client.")
def key_rotation(trial: Trial) -> None:
    """The new one is good at once, the old one no more."""
    grants = ["authorization_code", "refresh_token"]
    with application(trial.site) as app:
        address = app.serve("/jwks.json", "application/json", key_set(3))
        client = Signing(trial.site, token_endpoint_auth_method="private_key_jwt", jwks_uri=address, grant_types=grants)
        said = client.sign_in(trial.browser(), scope="openid offline_access", prompt="consent")
        app.serve("/jwks.json", "application/json", key_set(4))
        client.number = 4
        renewed = client.tokens(client.token(grant_type="refresh_token", refresh_token=said["refresh_token"]))
        client.userinfo({**renewed, "claims": said["claims"]})
        client.number = 3
        answer = client.token(grant_type="refresh_token", refresh_token=renewed["refresh_token"])
        error_of(answer, "invalid_client")


@MODULES.add("oidcc-registration-sector-uri", "A sector that is registered by the address of its list.")
def sector_uri(trial: Trial) -> None:
    """Two clients of it know a person by the same subject, and another client by another."""
    with application(trial.site) as app:
        listed = json.dumps([CALLBACK, "https://other.example.com/callback"]).encode()
        address = app.serve("/sector.json", "application/json", listed)
        sector: dict[str, Any] = {"subject_type": "pairwise", "sector_identifier_uri": address}
        alone: dict[str, Any] = {"subject_type": "pairwise"}
        clients = [Registered(trial.site, **more) for more in (sector, sector, alone)]
        first, second, other = (one.sign_in(trial.browser())["claims"]["sub"] for one in clients)
        assert first == second != other


@MODULES.add("oidcc-registration-sector-bad", "A sector whose list has not the client's address is refused.")
def sector_bad(trial: Trial) -> None:
    """So is one that cannot be fetched; without one the client is registered."""
    with application(trial.site) as app, trial.site.new_http() as http:
        listed = app.serve("/sector.json", "application/json", b'["https://other.example.com/callback"]')
        for address in (listed, app.at("/nothing"), "https://192.168.0.1/sector.json"):
            answer = register(http, subject_type="pairwise", sector_identifier_uri=address)
            error_of(answer, "invalid_client_metadata")
        assert register(http, subject_type="pairwise").status_code == 201


@MODULES.add("oidcc-registration-logo-uri", "`logo_uri` of the client is shown where people sign in.")
def logo_uri(trial: Trial) -> None:
    """As a copy from this site, beside the host in large letters: no browser calls the stranger."""
    with application(trial.site) as app:
        address = app.serve("/logo.png", "image/png", PICTURE)
        client, browser = Registered(trial.site, logo_uri=address), trial.browser()
        page = browser.open(client.request())
        assert address not in page.text
        (source,) = re.findall(r'<img src="(/oauth/logo/[^"]+)"[^>]*> <strong>app\.example\.com</strong>', page.text)
        for _ in range(2):
            picture = browser.http.get(unescape(source))
            assert (picture.status_code, picture.headers["content-type"], picture.content) == (
                200, "image/png", PICTURE,
            )  # fmt: skip
        assert app.asked == ["/logo.png"]


def _linked(name: str, member: str) -> None:
    """Add a module that asks for a link of the client on the first page."""

    def run(trial: Trial) -> None:
        address = "https://app.example.com/about-us"
        said: dict[str, Any] = {member: address}
        page = trial.browser().open(Registered(trial.site, **said).request())
        (link,) = re.findall(rf'<a href="{address}"[^>]*>[^<]+</a>', page.text)
        assert 'rel="noopener noreferrer nofollow"' in link
        assert "at app.example.com" in link

    MODULES.add(name, f"`{member}` of the client is shown where people sign in.")(run)


_linked("oidcc-registration-policy-uri", "policy_uri")
_linked("oidcc-registration-tos-uri", "tos_uri")


def _by_address(name: str, checks: str, alg: str) -> None:
    """Add a module whose request object is at an address."""

    def run(trial: Trial) -> None:
        with application(trial.site) as app:
            address = app.at("/request.jwt")
            public = {**key_pair("RS256", 3).as_dict(private=False), "kid": "rsa-3"}
            signs = {"request_object_signing_alg": alg, "jwks": {"keys": [public]}}
            said: dict[str, Any] = {} if alg == "none" else signs  # the suite says nothing of unsigned ones
            client = Registered(trial.site, request_uris=[address], **said)
            asked = client.request()
            app.serve("/request.jwt", "application/oauth-authz-req+jwt", _object(alg, asked))
            beside = {name: asked[name] for name in ("client_id", "response_type", "scope")}
            code = client.checked(trial.browser().authorize({**beside, "request_uri": address}), asked)["code"]
            client.id_claims(client.tokens(client.redeem(code)), asked["nonce"])
            other = {**beside, "redirect_uri": CALLBACK, "request_uri": f"{address}?2", "state": asked["state"]}
            client.refused(trial.browser().authorize(other), asked, "invalid_request_uri")

    MODULES.add(name, checks)(run)


def _object(alg: str, asked: dict[str, str]) -> bytes:
    """Return a request object."""
    if alg != "none":
        key = key_pair(alg, 3)
        return jwt.encode({"alg": alg, "kid": "rsa-3"}, dict(asked), key, algorithms=[alg]).encode()
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, asked))
    return b".".join([*(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts), b""])


_by_address("oidcc-request-uri-unsigned", "An unsigned request object at an address.", "none")
_by_address("oidcc-request-uri-signed-rs256", "A request object at an address, signed by RS256.", "RS256")


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


@MODULES.add("oidcc-userinfo-rs256", "A client that registers RS256 for userinfo gets a signed answer.")
def userinfo_rs256(trial: Trial) -> None:
    """It is from the issuer, for this client, and about the person of the ID token."""
    client = Registered(trial.site, userinfo_signed_response_alg="RS256")
    assert "RS256" in client.metadata["userinfo_signing_alg_values_supported"]
    said = client.sign_in(trial.browser())
    answer = client.ask(said)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/jwt")
    keys = KeySet.import_key_set(client.http.get(client.path("jwks_uri")).json())
    told = jwt.decode(answer.text, keys, algorithms=["RS256"]).claims
    assert (told["iss"], told["aud"], told["sub"]) == (ISSUER, client.client_id, said["claims"]["sub"])
