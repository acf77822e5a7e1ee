"""Paths of types of authorization details; ``tokens.urls`` adds them to its own."""

from django.urls import URLPattern, path

from tokens.details.administration import views

staff_urlpatterns: list[URLPattern] = [
    path("authorization-details-types", views.DetailTypesView.as_view(), name="detail-types"),
    path("authorization-details-types/<uuid:type_id>", views.DetailTypeView.as_view(), name="detail-type"),
]
