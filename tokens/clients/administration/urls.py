"""Paths of clients; ``tokens.urls`` adds them to its own."""

from django.urls import URLPattern, path

from tokens.clients.administration import views

staff_urlpatterns: list[URLPattern] = [
    path("clients", views.ClientsView.as_view(), name="clients"),
    path("clients/<uuid:client_id>", views.ClientView.as_view(), name="client"),
    path("clients/<uuid:client_id>/secret", views.ClientSecretView.as_view(), name="client-secret"),
    path("clients/<uuid:client_id>/disable", views.ClientDisableView.as_view(), name="client-disable"),
    path("clients/<uuid:client_id>/enable", views.ClientEnableView.as_view(), name="client-enable"),
]
