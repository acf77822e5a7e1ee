"""The laboratory's endpoints, below ``/perf/``; ``ironauth.urls`` includes them with IRONAUTH_PERF_ENDPOINTS only."""

from django.urls import URLResolver, include, path

urlpatterns: list[URLResolver] = [path("serialization/", include("perf.serialization.urls"))]
