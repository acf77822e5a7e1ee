"""django-allauth as relying party, by its provider for OpenID Connect."""

import sites
from conversation import hear, passed
from django.urls import include, path

given = hear()
issuer, client_id, client_secret = given["issuer"], given["client_id"], given["client_secret"]

# begin: settings.py
SOCIALACCOUNT_PROVIDERS = {
    "openid_connect": {
        "OAUTH_PKCE_ENABLED": True,
        "APPS": [
            {
                "provider_id": "ironauth",
                "name": "IronAuth",
                "client_id": client_id,
                "secret": client_secret,
                "settings": {"server_url": issuer},
            }
        ],
    }
}
# end
START = "/accounts/oidc/ironauth/login/"
APPLICATIONS = [
    "django.contrib.messages",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
]

if __name__ == "__main__":
    SOCIALACCOUNT_PROVIDERS["openid_connect"]["OAUTH_PKCE_ENABLED"] = not given["plain"]
    sites.begin(
        APPLICATIONS,
        "allauth.account.auth_backends.AuthenticationBackend",
        ["django.contrib.messages.middleware.MessageMiddleware", "allauth.account.middleware.AccountMiddleware"],
        EMAIL_BACKEND="django.core.mail.backends.locmem.EmailBackend",  # it has addresses confirmed
        SOCIALACCOUNT_PROVIDERS=SOCIALACCOUNT_PROVIDERS,
    )
    urlpatterns = [path("accounts/", include("allauth.urls"))]  # which reads settings
    assert sites.signed_in(START, by_form=True) == given["email"]
    passed("signed in")
    if not given["plain"]:
        from conversation import visit
        from django.test import Client

        here, there = (Client(headers={"host": sites.SITE}) for _ in range(2))
        back = visit(here.post(START, secure=True)["location"])
        there.get(back.removeprefix(f"https://{sites.SITE}"), secure=True)
        if sites.who(there) == "nobody":
            here.get(back.removeprefix(f"https://{sites.SITE}"), secure=True)
            if sites.who(here) == given["email"]:
                passed("refused: another browser's answer")
