"""Routes of the OAuth 2.0 / OpenID Connect provider, under /oauth/."""

from django.urls import URLPattern, path

from tokens.oauth import token_views, userinfo

urlpatterns: list[URLPattern] = [
    path("token", token_views.TokenView.as_view(), name="token"),
    path("introspect", token_views.IntrospectionView.as_view(), name="introspect"),
    path("revoke", token_views.RevocationView.as_view(), name="revoke"),
    path("userinfo", userinfo.UserInfoView.as_view(), name="userinfo"),
]
