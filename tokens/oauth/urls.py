"""Routes of the OAuth 2.0 / OpenID Connect provider, under /oauth/."""

from django.urls import URLPattern, path

from tokens.oauth import logo_views, registration_views
from tokens.oauth.accounts import own_views
from tokens.oauth.accounts import views as account_views
from tokens.oauth.authorize import (
    mail_views,
    pushed_requests,
    reset_views,
    sign_in_views,
    sign_up_views,
    upstream_views,
)
from tokens.oauth.authorize import views as authorize_views
from tokens.oauth.device import views as device_views
from tokens.oauth.discovery import userinfo
from tokens.oauth.logout import views as logout
from tokens.oauth.token import views as token_views

#: At the root, beside the pages of ``accounts``.
page_urlpatterns: list[URLPattern] = [
    path("account/signin", sign_up_views.AccountEntrance.as_view(), name="signin-page"),
    path("account/signup", sign_up_views.AccountEntrance.as_view(signs_up=True), name="signup-page"),
    path("account/accounts", own_views.AccountsPage.as_view(), name="accounts-page"),
]
urlpatterns: list[URLPattern] = [
    path("authorize", authorize_views.AuthorizeView.as_view(), name="authorize"),
    path("par", pushed_requests.PushedRequestView.as_view(), name="par"),
    path("account", account_views.AccountForm.as_view(), name="account"),
    path("account/session", own_views.OwnSession.as_view(), name="account-session"),
    path("consent", device_views.ClientOrDeviceConsentView.as_view(), name="consent"),
    path("signin", sign_in_views.PasswordForm.as_view(), name="signin"),
    path("signin/code", sign_in_views.SecondFactorForm.as_view(), name="signin-code"),
    path("signin/passkey", sign_in_views.PasskeyForm.as_view(), name="signin-passkey"),
    path("signin/email", sign_up_views.AskCodeForm.as_view(), name="signin-email"),
    path("signin/link", mail_views.SignInLink.as_view(), name="signin-link"),
    path("forgot", reset_views.ForgotForm.as_view(), name="forgot"),
    path("reset", reset_views.ResetPage.as_view(), name="reset"),
    path("verify", mail_views.VerifyLink.as_view(), name="verify"),
    path("continue", mail_views.ContinueLink.as_view(), name="continue"),
    path("verify-again", reset_views.VerifyAgainForm.as_view(), name="verify-again"),
    path("signup", sign_up_views.SignUpForm.as_view(), name="signup"),
    path("terms", upstream_views.TermsForm.as_view(), name="terms"),
    path("upstream", upstream_views.UpstreamForm.as_view(), name="upstream"),
    path("upstream/<slug:slug>", upstream_views.UpstreamCallback.as_view(), name="upstream-callback"),
    path("upstream/<slug:slug>/logout", upstream_views.UpstreamLogout.as_view(), name="upstream-logout"),
    path("code", sign_up_views.CodeForm.as_view(), name="code"),
    path("device_authorization", device_views.DeviceAuthorizationView.as_view(), name="device-authorization"),
    path("device", device_views.DeviceView.as_view(), name="device"),
    path("token", token_views.TokenView.as_view(), name="token"),
    path("introspect", token_views.IntrospectionView.as_view(), name="introspect"),
    path("revoke", token_views.RevocationView.as_view(), name="revoke"),
    path("userinfo", userinfo.UserInfoView.as_view(), name="userinfo"),
    path("logo/<uuid:client_id>", logo_views.LogoView.as_view(), name="logo"),
    path("register", registration_views.RegisterView.as_view(), name="register"),
    path("register/<uuid:client_id>", registration_views.RegistrationView.as_view(), name="registration"),
    path("logout", logout.LogoutView.as_view(), name="logout"),
]
