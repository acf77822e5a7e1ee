"""Paths of registered APIs; ``tokens.urls`` adds them to its own."""

from django.urls import URLPattern, path

from tokens.resources.administration import views

staff_urlpatterns: list[URLPattern] = [
    path("resources", views.ResourcesView.as_view(), name="resources"),
    path("resources/<uuid:resource_id>", views.ResourceView.as_view(), name="resource"),
]
