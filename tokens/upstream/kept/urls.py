"""Paths of access that is kept; ``tokens.urls`` adds them to its own."""

from django.urls import URLPattern, path

from tokens.upstream.kept import views

staff_urlpatterns: list[URLPattern] = [
    path(
        "users/<uuid:user_id>/provider-tokens/<slug:slug>",
        views.UserProviderTokenView.as_view(),
        name="user-provider-token",
    ),
]
