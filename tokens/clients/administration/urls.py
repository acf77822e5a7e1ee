"""Paths of clients; ``tokens.urls`` adds them to its own."""

from django.urls import URLPattern, path

from tokens.clients.administration import views
from tokens.clients.dynamic import staff_views

staff_urlpatterns: list[URLPattern] = [
    path("clients", views.ClientsView.as_view(), name="clients"),
    path("clients/<uuid:client_id>", views.ClientView.as_view(), name="client"),
    path("clients/<uuid:client_id>/secret", views.ClientSecretView.as_view(), name="client-secret"),
    path("clients/<uuid:client_id>/disable", views.ClientDisableView.as_view(), name="client-disable"),
    path("clients/registration-tokens", staff_views.TokensView.as_view(), name="registration-tokens"),
    path("clients/registration-tokens/<uuid:token_id>", staff_views.TokenView.as_view(), name="registration-token"),
    path("clients/<uuid:client_id>/verify", views.ClientVerifyView.as_view(), name="client-verify"),
    path("clients/<uuid:client_id>/enable", views.ClientEnableView.as_view(), name="client-enable"),
]
