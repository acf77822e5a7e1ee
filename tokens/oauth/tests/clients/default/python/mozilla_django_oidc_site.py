"""mozilla-django-oidc, configured by settings alone."""

import sites
from conversation import hear, passed
from django.urls import include, path

given = hear()
issuer, client_id, client_secret = given["issuer"], given["client_id"], given["client_secret"]

# begin: settings.py
OIDC_RP_CLIENT_ID = client_id
OIDC_RP_CLIENT_SECRET = client_secret
OIDC_RP_SIGN_ALGO = "RS256"
OIDC_USE_PKCE = True
OIDC_OP_AUTHORIZATION_ENDPOINT = f"{issuer}/oauth/authorize"
OIDC_OP_TOKEN_ENDPOINT = f"{issuer}/oauth/token"
OIDC_OP_USER_ENDPOINT = f"{issuer}/oauth/userinfo"
OIDC_OP_JWKS_ENDPOINT = f"{issuer}/.well-known/jwks.json"
# end

if __name__ == "__main__":
    OIDC_USE_PKCE = not given["plain"]
    options = {name: value for name, value in globals().items() if name.startswith("OIDC_")}
    sites.begin(["mozilla_django_oidc"], "mozilla_django_oidc.auth.OIDCAuthenticationBackend", **options)
    urlpatterns = [path("oidc/", include("mozilla_django_oidc.urls"))]  # which reads settings
    assert sites.signed_in("/oidc/authenticate/") == given["email"]
    passed("signed in")
    if given["plain"]:
        raise SystemExit
    from django.conf import settings

    settings.OIDC_RP_SIGN_ALGO = "ES256"
    if sites.signed_in("/oidc/authenticate/") == "nobody":
        passed("refused: another algorithm")
