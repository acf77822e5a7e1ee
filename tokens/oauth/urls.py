"""Routes of the OAuth 2.0 / OpenID Connect provider, under /oauth/."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
