"""Routes of the OAuth 2.0 / OpenID Connect provider, under /oauth/."""

from django.urls import URLPattern, path

from tokens.oauth import authorize_views, pushed_requests, sign_in_views

urlpatterns: list[URLPattern] = [
    path("authorize", authorize_views.AuthorizeView.as_view(), name="authorize"),
    path("par", pushed_requests.PushedRequestView.as_view(), name="par"),
    path("consent", authorize_views.ConsentView.as_view(), name="consent"),
    path("signin", sign_in_views.PasswordForm.as_view(), name="signin"),
    path("signin/code", sign_in_views.SecondFactorForm.as_view(), name="signin-code"),
    path("signin/passkey", sign_in_views.PasskeyForm.as_view(), name="signin-passkey"),
]
