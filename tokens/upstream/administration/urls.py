"""Paths of sign-in providers; ``tokens.urls`` adds them to its own."""

from django.urls import URLPattern, path

from tokens.upstream.administration import views

staff_urlpatterns: list[URLPattern] = [
    path("providers", views.ProvidersView.as_view(), name="providers"),
    path("providers/<slug:slug>", views.ProviderView.as_view(), name="provider"),
    path("providers/<slug:slug>/try", views.ProviderTrialView.as_view(), name="provider-try"),
]
