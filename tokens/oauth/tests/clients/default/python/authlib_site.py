"""Authlib, as its integration for Django has it."""

from typing import Any

import sites
from conversation import hear, passed, visit
from django.http import HttpRequest
from django.test import RequestFactory

given = hear()
issuer, client_id, client_secret = given["issuer"], given["client_id"], given["client_secret"]
urlpatterns: list[Any] = []


def registered() -> Any:
    """Return the provider as a site registers it."""
    # begin: views.py
    from authlib.integrations.django_client import OAuth

    oauth = OAuth()
    oauth.register(
        "ironauth",
        client_id=client_id,
        client_secret=client_secret,
        server_metadata_url=f"{issuer}/.well-known/openid-configuration",
        client_kwargs={"scope": "openid profile email", "code_challenge_method": "S256"},
    )
    # end
    if given["plain"]:
        del oauth.ironauth.client_kwargs["code_challenge_method"]
    return oauth.ironauth


def signed_in(algorithms: list[str] | None = None) -> str:
    """Sign in as the views of a site do; return whose email address it is."""
    app, session = registered(), {}
    if algorithms:
        app.load_server_metadata()["id_token_signing_alg_values_supported"] = algorithms
    url = app.authorize_redirect(_in(session), given["redirect_uri"]).url
    token = app.authorize_access_token(_in(session, visit(url)))
    assert app.userinfo(token=token)["sub"] == token["userinfo"]["sub"]
    return str(app.userinfo(token=token)["email"])


def whole() -> None:
    """Renew, revoke, and sign out."""
    from authlib.integrations.base_client import OAuthError
    from authlib.integrations.requests_client import OAuth2Session

    app, session = registered(), {}
    token = app.authorize_access_token(
        _in(session, visit(app.authorize_redirect(_in(session), given["redirect_uri"]).url))
    )
    metadata = app.load_server_metadata()
    with OAuth2Session(client_id, client_secret) as http:
        renewed = http.refresh_token(metadata["token_endpoint"], refresh_token=token["refresh_token"])
        assert renewed["refresh_token"] != token["refresh_token"]
        passed("refreshed")
        assert http.revoke_token(metadata["revocation_endpoint"], token=renewed["refresh_token"]).status_code == 200
        try:
            http.refresh_token(metadata["token_endpoint"], refresh_token=renewed["refresh_token"])
        except OAuthError as error:
            if error.error == "invalid_grant":
                passed("revoked")
    token = app.authorize_access_token(
        _in(session, visit(app.authorize_redirect(_in(session), given["redirect_uri"]).url))
    )
    leaving = _in(session)
    url = app.logout_redirect(leaving, post_logout_redirect_uri=given["gone"], id_token_hint=token["id_token"]).url
    assert app.validate_logout_response(_in(session, visit(url)))["post_logout_redirect_uri"] == given["gone"]
    passed("signed out")


def _in(session: dict[str, Any], address: str = "/") -> HttpRequest:
    request = RequestFactory().get(address)
    request.session = session  # type: ignore[assignment]
    return request


if __name__ == "__main__":
    sites.begin([], "django.contrib.auth.backends.ModelBackend")
    assert signed_in() == given["email"]
    passed("signed in")
    if given["plain"]:
        raise SystemExit
    from joserfc.errors import JoseError

    try:
        signed_in(["ES256"])
    except JoseError:
        passed("refused: another algorithm")
    if given["whole"]:
        whole()
