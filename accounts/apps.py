"""The accounts application: who a person is."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Register the signal receivers that tell every worker when an account changes."""

    name = "accounts"
    verbose_name = "People and roles"

    def ready(self) -> None:
        """Connect the receivers; they need the models, hence not at import time."""
        from accounts import signals  # noqa: PLC0415 - models exist only once the registry is ready

        signals.connect()
