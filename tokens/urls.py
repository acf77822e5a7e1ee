"""Routes of this application, by the prefix they live under."""

from django.urls import URLPattern, path

from tokens.clients.administration import urls as client_urls
from tokens.details.administration import urls as detail_urls
from tokens.keys import views as wellknown_views
from tokens.keys.administration import urls as key_urls
from tokens.oauth.authorize import upstream_views
from tokens.oauth.consent import staff_views as consent_staff_views
from tokens.oauth.consent import views as consent_views
from tokens.oauth.discovery import metadata, protected_resource
from tokens.oauth.token import forward_auth
from tokens.resources.administration import urls as resource_urls
from tokens.sessions import views as session_views
from tokens.sign_in import email_views, factor_views, passkey_views, views
from tokens.staff import views as staff_views
from tokens.upstream.administration import urls as provider_urls
from tokens.upstream.kept import urls as kept_urls

#: Under /api/v1/access/.
access_urlpatterns: list[URLPattern] = [
    path("signin", views.SignInView.as_view(), name="signin"),
    path("signin/mfa", factor_views.SignInMfaView.as_view(), name="signin-mfa"),
    path("signin/mfa/options", passkey_views.SecondFactorOptionsView.as_view(), name="signin-mfa-options"),
    path("signin/passkey", passkey_views.PasskeySignInView.as_view(), name="signin-passkey"),
    path("signin/passkey/options", passkey_views.SignInOptionsView.as_view(), name="signin-passkey-options"),
    path("signin/email", email_views.EmailCodeView.as_view(), name="signin-email"),
    path("signin/email/confirm", email_views.EmailSignInView.as_view(), name="signin-email-confirm"),
    path("step-up", factor_views.StepUpView.as_view(), name="step-up"),
    path("step-up/email", email_views.StepUpEmailView.as_view(), name="step-up-email"),
    path("step-up/options", passkey_views.StepUpOptionsView.as_view(), name="step-up-options"),
    path("refresh", views.RefreshView.as_view(), name="refresh"),
    path("logout", views.LogoutView.as_view(), name="logout"),
    path("logout-all", views.LogoutAllView.as_view(), name="logout-all"),
    path("verify", forward_auth.VerifyView.as_view(), name="verify"),
    path("password", views.PasswordView.as_view(), name="password"),
    path("sessions", session_views.SessionsView.as_view(), name="sessions"),
    path("sessions/<uuid:session_id>", session_views.SessionView.as_view(), name="session"),
    path("identities", upstream_views.IdentitiesView.as_view(), name="identities"),
    path("identities/<uuid:identity_id>", upstream_views.IdentityView.as_view(), name="identity"),
    path("consents", consent_views.ConsentsView.as_view(), name="consents"),
    path("consents/<uuid:client_id>", consent_views.ConsentView.as_view(), name="consent"),
]
#: Under /api/v1/.
staff_urlpatterns: list[URLPattern] = [
    path("users/<uuid:user_id>/sessions", staff_views.UserSessionsView.as_view(), name="user-sessions"),
    path("users/<uuid:user_id>/sessions/<uuid:session_id>", staff_views.UserSessionView.as_view(), name="user-session"),
    path("users/<uuid:user_id>/consents", consent_staff_views.UserConsentsView.as_view(), name="user-consents"),
    path(
        "users/<uuid:user_id>/consents/<uuid:client_id>",
        consent_staff_views.UserConsentView.as_view(),
        name="user-consent",
    ),
    *client_urls.staff_urlpatterns,
    *resource_urls.staff_urlpatterns,
    *detail_urls.staff_urlpatterns,
    *key_urls.staff_urlpatterns,
    *provider_urls.staff_urlpatterns,
    *kept_urls.staff_urlpatterns,
]
#: Under /.well-known/.
wellknown_urlpatterns: list[URLPattern] = [
    path("jwks.json", wellknown_views.JwksView.as_view(), name="jwks"),
    path("openid-configuration", metadata.OpenIdView.as_view(), name="openid-configuration"),
    path("oauth-authorization-server", metadata.OAuthServerView.as_view(), name="oauth-authorization-server"),
    path(
        "oauth-protected-resource", protected_resource.ProtectedResourceView.as_view(), name="oauth-protected-resource"
    ),
]
