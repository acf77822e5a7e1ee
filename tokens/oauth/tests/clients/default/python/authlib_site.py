"""Authlib, as its integration for Django has it."""

from typing import Any

import sites
from conversation import hear, passed, visit
from django.http import HttpRequest
from django.test import RequestFactory

given = hear()
issuer, client_id, client_secret = given["issuer"], given["client_id"], given["client_secret"]
urlpatterns: list[Any] = []


def signed_in(algorithms: list[str] | None = None) -> str:
    """Sign in as the views of a site do; return whose email address it is."""
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
    app, session = oauth.ironauth, {}
    if algorithms:
        app.load_server_metadata()["id_token_signing_alg_values_supported"] = algorithms
    url = app.authorize_redirect(_in(session), given["redirect_uri"]).url
    token = app.authorize_access_token(_in(session, visit(url)))
    assert app.userinfo(token=token)["sub"] == token["userinfo"]["sub"]
    return str(app.userinfo(token=token)["email"])


def _in(session: dict[str, Any], address: str = "/") -> HttpRequest:
    request = RequestFactory().get(address)
    request.session = session  # type: ignore[assignment]
    return request


if __name__ == "__main__":
    sites.begin([], "django.contrib.auth.backends.ModelBackend")
    assert signed_in() == given["email"]
    passed("signed in")
    from joserfc.errors import JoseError

    try:
        signed_in(["ES256"])
    except JoseError:
        passed("refused: another algorithm")
