"""The accounts application: who a person is."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Register the signal receivers that tell every worker when an account changes."""

    name = "accounts"
    verbose_name = "People and roles"

    def ready(self) -> None:
        """Connect the receivers, and have servers read the blocklist before the first sign-up needs it."""
        from accounts import audit_signals, signals  # noqa: PLC0415 - models exist only once the registry is ready
        from accounts.weak_patterns import load_common_passwords  # noqa: PLC0415 - as above
        from ironauth.infrastructure.lifespan import on_startup  # noqa: PLC0415 - as above

        signals.connect()
        audit_signals.connect()
        on_startup(load_common_passwords)
