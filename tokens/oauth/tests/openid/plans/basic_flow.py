"""Modules of Basic about the flow: codes, tokens, and how a client proves who it is."""

from typing import Final

from tokens.oauth.tests.openid.registry import Modules, Trial
from tokens.oauth.tests.openid.relying_party import invalid_grant
from tokens.oauth.tests.walk import CHALLENGE, VERIFIER

MODULES: Final = Modules()
#: What the first use of a code is moved back by, to be long ago.
LATER_S: Final = 30.0


@MODULES.add("oidcc-server", "The whole flow: code, tokens, a verified ID token, userinfo.")
def server(trial: Trial) -> None:
    """Nothing but who the person is leaves with the scope openid."""
    client = trial.client()
    said = client.sign_in(trial.browser())
    assert set(client.userinfo(said)) == {"sub"}


@MODULES.add("oidcc-server-client-secret-post", "The same, with the secret in the body.")
def server_client_secret_post(trial: Trial) -> None:
    """The header is not needed."""
    client = trial.client(post=True)
    client.userinfo(client.sign_in(trial.browser()))


@MODULES.add("oidcc-alternate-happy-flow", "Scopes and parameters in another order make no difference.")
def alternate_happy_flow(trial: Trial) -> None:
    """The email is told by userinfo, and the name by nobody."""
    client = trial.client()
    asked = dict(reversed(client.request(scope="email openid").items()))
    said = client.tokens(client.redeem(client.authorize(trial.browser(), asked)))
    claims = client.id_claims(said, asked["nonce"])
    trial.should(not {"name", "email"} & claims.keys(), "claims of scopes are in the ID token")
    told = client.userinfo({**said, "claims": claims})
    assert "email" in told
    trial.should("name" not in told, "userinfo tells the name without the scope profile")


@MODULES.add("oidcc-response-type-missing", "Without response_type: an error to the client, or a page.")
def response_type_missing(trial: Trial) -> None:
    """The client is told."""
    client = trial.client()
    asked = client.request(response_type=None)
    client.refused(trial.browser().authorize(asked), asked, "invalid_request", "unsupported_response_type")


@MODULES.add(
    "oidcc-ensure-request-without-nonce-succeeds-for-code-flow", "A request without nonce succeeds, and none is told."
)
def without_nonce(trial: Trial) -> None:
    """The ID token has no nonce."""
    client = trial.client()
    assert "nonce" not in client.sign_in(trial.browser(), nonce=None)["claims"]


@MODULES.add("oidcc-ensure-request-with-valid-pkce-succeeds", "PKCE by S256 works for a client that need not send it.")
def with_valid_pkce(trial: Trial) -> None:
    """Another verifier is refused; the right one is not."""
    client, browser = trial.client(), trial.browser()
    asked = client.request(code_challenge=CHALLENGE, code_challenge_method="S256")
    wrong = client.redeem(client.authorize(browser, asked), code_verifier=VERIFIER[:-1] + "w")
    invalid_grant(wrong)
    asked = client.request(code_challenge=CHALLENGE, code_challenge_method="S256")
    said = client.tokens(client.redeem(client.authorize(browser, asked), code_verifier=VERIFIER))
    client.id_claims(said, asked["nonce"])


@MODULES.add("oidcc-ensure-post-request-succeeds", "The authorization request may be a POST.")
def post_request(trial: Trial) -> None:
    """A form of another site, which brings no cookie of ours."""
    client = trial.client()
    asked = client.request()
    said = client.tokens(client.redeem(client.authorize(trial.browser(), asked, post=True)))
    client.id_claims(said, asked["nonce"])


@MODULES.add("oidcc-codereuse", "A code used a second time at once is refused, and ends the tokens of the first use.")
def codereuse(trial: Trial) -> None:
    """Both."""
    _used_twice(trial, 0.0)


@MODULES.add("oidcc-codereuse-30seconds", "The same 30 seconds later.")
def codereuse_30seconds(trial: Trial) -> None:
    """The code is marked as used 30 seconds ago."""
    _used_twice(trial, LATER_S)


@MODULES.add(
    "oidcc-refresh-token",
    "A refresh token gives tokens for the same person and client; another client is refused.",
)
def refresh_token(trial: Trial) -> None:
    """Of two clients; each one's token is its own."""
    browser = trial.browser()
    first, second = trial.client(), trial.client()
    for client in (first, second):
        said = client.sign_in(browser, scope="openid offline_access", prompt="consent")
        assert "refresh_token" in client.metadata["grant_types_supported"]
        renewed = client.tokens(client.token(grant_type="refresh_token", refresh_token=said["refresh_token"]))
        assert renewed["access_token"] != said["access_token"]
        if "id_token" in renewed:
            claims = client.id_claims(renewed, None, said["claims"]["nonce"])  # Core §12.2: better without
            same = ("iss", "sub", "aud", "auth_time")
            assert {name: claims[name] for name in same} == {name: said["claims"][name] for name in same}
            assert claims["iat"] >= said["claims"]["iat"]
        assert client.userinfo({**renewed, "claims": said["claims"]})
    invalid_grant(first.token(grant_type="refresh_token", refresh_token=renewed["refresh_token"]))


@MODULES.add("oidcc-idtoken-signature", "The ID token is signed by RS256 where the client asks for nothing else.")
def idtoken_signature(trial: Trial) -> None:
    """And verified with the served key set."""
    client = trial.client()
    assert client.id_token_alg == "RS256"
    client.sign_in(trial.browser())


@MODULES.add(
    "oidcc-idtoken-unsigned",
    "Whether an unsigned ID token can be had.",
    skipped="`none` is not among `id_token_signing_alg_values_supported`",
)
def idtoken_unsigned(trial: Trial) -> None:
    """It cannot."""
    assert "none" not in trial.client().metadata["id_token_signing_alg_values_supported"]


def _used_twice(trial: Trial, later_s: float) -> None:
    client = trial.client()
    code = client.authorize(trial.browser(), client.request())
    said = client.tokens(client.redeem(code))
    assert client.ask(said).status_code == 200
    if later_s:
        where = {"client_id": client.client_id.replace("-", "")}
        trial.site.move_back("tokens_authorizationcode", ("created_at", "used_at", "expires_at"), later_s, where)
    invalid_grant(client.redeem(code))
    trial.should(client.ask(said).status_code == 401, "the access token of the first use still works")
