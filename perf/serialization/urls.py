"""The paths below ``/perf/serialization/``."""

from django.urls import URLPattern, path

from perf.serialization import views

urlpatterns: list[URLPattern] = [
    path("msgspec", views.StructsView.as_view()),
    path("msgspec-converted", views.ConvertedView.as_view()),
    path("drf", views.SerializerView.as_view()),
    path("drf-msgspec", views.SerializerMsgspecView.as_view()),
]
