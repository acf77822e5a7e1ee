"""The laboratory's endpoints, below ``/perf/``; ``ironauth.urls`` includes them with IRONAUTH_PERF_ENDPOINTS only."""

from django.urls import URLPattern, path

from perf.pauses.views import PausesView
from perf.serialization import views

urlpatterns: list[URLPattern] = [
    path("pauses", PausesView.as_view()),
    path("serialization/msgspec", views.StructsView.as_view()),
    path("serialization/msgspec-converted", views.ConvertedView.as_view()),
    path("serialization/drf", views.SerializerView.as_view()),
    path("serialization/drf-msgspec", views.SerializerMsgspecView.as_view()),
]
