"""The Django app that owns what every other app stands on."""

from django.apps import AppConfig, apps

from ironauth.infrastructure.core.lean_imports import without


def import_rest_framework() -> None:
    """Import what of DRF looks for optional packages: 10 MiB less of each worker on SQLite, 15 where requests is there.

    Its compat module tries fields of Postgres (for a ModelSerializer; it brings psycopg with its own OpenSSL along),
    requests (for a test client; installed with requirements/otel.txt), and YAML and Pygments (for its own documents).
    Its schemas bring the admin's documentation generator along, which tries docutils; drf-spectacular brings a test
    client, which tries Jinja2. Where both are installed, as in a checkout, that is 5 MiB more.
    """
    with without("django.contrib.postgres.fields", "requests", "yaml", "pygments", "docutils", "jinja2"):
        import django.contrib.admindocs.utils  # noqa: PLC0415 - here, and nowhere before
        import django.test.utils  # noqa: F401, PLC0415 - as above
        import rest_framework.compat  # noqa: F401, PLC0415 - as above


class InfrastructureConfig(AppConfig):
    """Pools, caches, request handling and errors."""

    name = "ironauth.infrastructure"
    label = "infrastructure"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Import DRF first, before the apps that use it; this is the first app that is asked."""
        import_rest_framework()
        if apps.is_installed("cachalot"):  # behind this one, so what it wraps is this
            from ironauth.infrastructure.cache.query_cache import (  # noqa: PLC0415 - with Redis only
                close_levels_of_failed_transactions,
            )

            close_levels_of_failed_transactions()
