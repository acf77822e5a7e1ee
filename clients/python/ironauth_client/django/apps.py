"""The Django application ``ironauth_client.django``."""

from django.apps import AppConfig
from django.core.checks import Tags, register


class IronAuthClientConfig(AppConfig):
    """Registers the checks of the settings."""

    name = "ironauth_client.django"
    label = "ironauth_client"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "IronAuth"

    def ready(self) -> None:
        """Register the checks."""
        from ironauth_client.django.checks import check_settings  # noqa: PLC0415 - needs loaded applications

        register(Tags.security)(check_settings)
