"""The Django app that owns what every other app stands on."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from django.apps import AppConfig, apps


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Let ``import`` find none of the modules ``names`` inside the block, as if they were not installed.

    What has been imported before stays. Only for start-up: another thread's imports are kept from them, too.
    ``None`` in ``sys.modules`` is how Python itself has it (Language Reference §5.3.1, "The module cache").
    """
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None is allowed: see the docstring
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def import_rest_framework() -> None:
    """Import what of DRF looks for optional packages: 10 MiB less of each worker on SQLite, 15 where requests is there.

    Its compat module tries fields of Postgres (for a ModelSerializer; it brings psycopg with its own OpenSSL along),
    requests (for a test client; installed with requirements/otel.txt), and YAML and Pygments (for its own documents).
    """
    with without("django.contrib.postgres.fields", "requests", "yaml", "pygments"):
        import rest_framework.compat  # noqa: F401, PLC0415 - here, and nowhere before


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
