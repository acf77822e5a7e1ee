"""The Django app that owns what every other app stands on."""

from django.apps import AppConfig


class InfrastructureConfig(AppConfig):
    """Pools, caches, request handling and errors."""

    name = "ironauth.infrastructure"
    label = "infrastructure"
    default_auto_field = "django.db.models.BigAutoField"
