"""The metadata of the site's API: ``path("", include("ironauth_client.django.metadata_urls"))`` at the root."""

from django.urls import re_path

from ironauth_client.django import views

urlpatterns = [re_path(r"^\.well-known/oauth-protected-resource(?:/.*)?$", views.protected_resource)]
