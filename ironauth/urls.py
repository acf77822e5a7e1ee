"""Every path IronAuth answers; which lane serves it is decided in ``infrastructure.http.lanes``."""

from django.conf import settings
from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from django.utils.module_loading import import_string

from accounts import urls as accounts_urls
from ironauth import health, pages
from ironauth.config.checks import LABORATORY_URLS
from tokens import urls as tokens_urls
from tokens.oauth import urls as oauth_urls


def laboratory() -> list[URLResolver]:
    """Return the paths of ``perf/``, which exist with IRONAUTH_PERF_ENDPOINTS only: else they are as unknown as any."""
    return [path("perf/", include(LABORATORY_URLS))] if settings.IRONAUTH_PERF_ENDPOINTS else []


def simplejwt() -> list[URLResolver]:
    """Return the paths of SimpleJWT, which exist with IRONAUTH_SIMPLEJWT only: else they are as unknown as any."""
    if settings.IRONAUTH_SIMPLEJWT == "off":
        return []
    return [path(settings.IRONAUTH_SIMPLEJWT_PATH.removeprefix("/"), include("tokens.simplejwt.urls"))]


def metrics() -> list[URLPattern]:
    """Return the path of the figures, which exists with IRONAUTH_METRICS only: else it is as unknown as any."""
    return [path("metrics", import_string("ironauth.metrics_page.metrics"))] if settings.IRONAUTH_METRICS else []


urlpatterns: list[URLPattern | URLResolver] = [
    path("", pages.home, name="home"),
    path("favicon.ico", pages.favicon, name="favicon"),
    path("brand.css", pages.brand_style, name="brand-style"),
    path("ping", health.ping, name="ping"),
    path("health", health.HealthView.as_view(), name="health"),
    path("health/live", health.LiveView.as_view(), name="health-live"),
    path("api/openapi.json", pages.openapi, name="openapi"),
    path("api/errors", pages.errors, name="errors"),
    path("api/errors/<slug:place>", pages.error_code, name="error-code"),
    path("api/docs", pages.docs, name="docs"),
    path("api/docs/", pages.docs),  # as people type it
    path("api/v1/access/", include((accounts_urls.access_urlpatterns + tokens_urls.access_urlpatterns, "access"))),
    path("api/v1/", include((accounts_urls.staff_urlpatterns + tokens_urls.staff_urlpatterns, "staff"))),
    path("", include((accounts_urls.page_urlpatterns + oauth_urls.page_urlpatterns, "email-pages"))),
    path(".well-known/change-password", pages.change_password, name="change-password"),
    path(".well-known/security.txt", pages.security_txt, name="security-txt"),
    path(".well-known/", include((tokens_urls.wellknown_urlpatterns, "well-known"))),
    path("oauth/", include((oauth_urls.urlpatterns, "oauth"))),
    path("admin/", admin.site.urls),
    *simplejwt(),
    *metrics(),
    *laboratory(),
]
