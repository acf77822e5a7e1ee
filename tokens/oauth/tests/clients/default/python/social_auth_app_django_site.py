"""social-auth-app-django, with its backend for any provider of OpenID Connect."""

import sites
from conversation import hear, passed
from django.urls import include, path

given = hear()
issuer, client_id, client_secret = given["issuer"], given["client_id"], given["client_secret"]

# begin: settings.py
SOCIAL_AUTH_OIDC_OIDC_ENDPOINT = issuer
SOCIAL_AUTH_OIDC_KEY = client_id
SOCIAL_AUTH_OIDC_SECRET = client_secret
SOCIAL_AUTH_OIDC_USE_PKCE = True
# end

if __name__ == "__main__":
    SOCIAL_AUTH_OIDC_USE_PKCE = not given["plain"]
    options = {name: value for name, value in globals().items() if name.startswith("SOCIAL_AUTH_")}
    sites.begin(["social_django"], "social_core.backends.open_id_connect.OpenIdConnectAuth", **options)
    urlpatterns = [path("", include("social_django.urls", namespace="social"))]  # which reads settings
    assert sites.signed_in("/login/oidc/", by_form=True) == given["email"]
    passed("signed in")
    if given["plain"]:
        raise SystemExit
    from django.conf import settings
    from social_core.exceptions import AuthException

    settings.SOCIAL_AUTH_OIDC_JWT_ALGORITHMS = ["ES256"]
    try:
        sites.signed_in("/login/oidc/", by_form=True)
    except AuthException:
        passed("refused: another algorithm")
    del settings.SOCIAL_AUTH_OIDC_JWT_ALGORITHMS
    if given["whole"]:
        from social_django.models import UserSocialAuth
        from social_django.utils import load_strategy

        assert sites.signed_in("/login/oidc/", by_form=True) == given["email"]
        kept = UserSocialAuth.objects.get()
        before = kept.extra_data["access_token"], kept.extra_data["refresh_token"]
        kept.refresh_token(load_strategy())
        kept.refresh_from_db()
        assert kept.extra_data["access_token"] != before[0]
        assert kept.extra_data["refresh_token"] != before[1]
        passed("refreshed")
