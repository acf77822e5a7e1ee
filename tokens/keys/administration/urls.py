"""Paths of signing keys; ``tokens.urls`` adds them to its own."""

from django.urls import URLPattern, path

from tokens.keys.administration import views

staff_urlpatterns: list[URLPattern] = [
    path("keys", views.KeysView.as_view(), name="keys"),
    path("keys/rotate", views.KeyRotationView.as_view(), name="keys-rotate"),
    path("keys/<slug:kid>/drop", views.KeyDropView.as_view(), name="key-drop"),
]
