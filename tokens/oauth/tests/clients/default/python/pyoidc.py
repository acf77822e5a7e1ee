"""pyoidc (oic): its consumer's calls, one after the other."""

from urllib.parse import urlsplit

from conversation import hear, passed, sign_out, visit

given = hear()
issuer, client_id, client_secret = given["issuer"], given["client_id"], given["client_secret"]
redirect_uri = given["redirect_uri"]

# begin: signin.py
from oic import rndstr
from oic.oic import Client
from oic.oic.message import AuthorizationResponse, RegistrationResponse
from oic.utils.authn.client import CLIENT_AUTHN_METHOD

client = Client(client_authn_method=CLIENT_AUTHN_METHOD, config={"code_challenge": {"method": "S256", "length": 64}})
client.provider_config(issuer)
client.store_registration_info(RegistrationResponse(client_id=client_id, client_secret=client_secret))
client.redirect_uris = [redirect_uri]


def begin() -> tuple[str, str, str, str]:
    """Return where to send the browser, and what to keep in its session until it is back."""
    challenge, verifier = client.add_code_challenge()
    state, nonce = rndstr(), rndstr()
    request = client.construct_AuthorizationRequest(
        request_args={
            "client_id": client_id,
            "response_type": "code",
            "scope": ["openid", "profile", "email"],
            "redirect_uri": redirect_uri,
            "state": state,
            "nonce": nonce,
            **challenge,
        }
    )
    return request.request(client.authorization_endpoint), state, nonce, verifier


def finish(query: str, state: str, nonce: str, verifier: str):
    """Return who has signed in: the answer is for this request, and the ID token is verified."""
    client.parse_response(AuthorizationResponse, info=query, sformat="urlencoded")
    answer = client.do_access_token_request(
        state=state, request_args={"code_verifier": verifier}, authn_method="client_secret_basic"
    )
    if answer["id_token"]["nonce"] != nonce:
        raise ValueError("another request's ID token")
    return client.do_user_info_request(state=state)


# end


if __name__ == "__main__":
    if given["plain"]:
        client.add_code_challenge = lambda: ({}, None)
    url, *kept = begin()
    assert finish(urlsplit(visit(url)).query, *kept)["email"] == given["email"]
    passed("signed in")
    if given["plain"]:
        raise SystemExit
    url, state, _, verifier = begin()
    try:
        finish(urlsplit(visit(url)).query, state, "another", verifier)
    except ValueError as error:
        if str(error) == "another request's ID token":
            passed("refused: another nonce")
    if given["whole"]:
        from oic.oic.message import BackChannelLogoutRequest

        url, state, nonce, verifier = begin()
        finish(urlsplit(visit(url)).query, state, nonce, verifier)
        before = client.get_token(state=state).refresh_token
        client.do_access_token_refresh(state=state, authn_method="client_secret_basic")
        assert client.get_token(state=state).refresh_token != before
        passed("refreshed")
        leaving = client.construct_EndSessionRequest(
            state=state, request_args={"post_logout_redirect_uri": given["gone"], "state": state}
        )
        assert visit(leaving.request(client.end_session_endpoint)) == f"{given['gone']}?state={state}"
        passed("signed out")
        url, state, nonce, verifier = begin()
        who = finish(urlsplit(visit(url)).query, state, nonce, verifier)
        told = BackChannelLogoutRequest(logout_token=sign_out())
        told.verify(aud=client_id, iss=issuer, keyjar=client.keyjar)
        assert told["logout_token"]["sub"] == who["sub"]
        passed("told of a sign-out")
