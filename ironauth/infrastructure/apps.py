"""The Django app that owns what every other app stands on."""

from django.apps import AppConfig, apps
from django.core import checks

from ironauth.infrastructure import deployment
from ironauth.infrastructure.core.lean_imports import import_rest_framework


class InfrastructureConfig(AppConfig):
    """Pools, caches, request handling and errors."""

    name = "ironauth.infrastructure"
    label = "infrastructure"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Import DRF first, before the apps that use it; this is the first app that is asked."""
        import_rest_framework()
        checks.register(deployment.check_mail, checks.Tags.security, deploy=True)
        if apps.is_installed("cachalot"):  # behind this one, so what it wraps is this
            from ironauth.infrastructure.cache.query_cache import (  # noqa: PLC0415 - with Redis only
                close_levels_of_failed_transactions,
            )

            close_levels_of_failed_transactions()
