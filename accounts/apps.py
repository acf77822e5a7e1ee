"""The accounts application: who a person is."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Connect and register everything of this application once its models exist."""

    name = "accounts"
    verbose_name = "People and roles"

    def ready(self) -> None:
        """See ``startup``."""
        from accounts import startup  # noqa: PLC0415 - models exist only once the registry is ready

        startup.connect()
