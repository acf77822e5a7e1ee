"""The accounts application: who a person is."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Register the signal receivers that tell every worker when an account changes."""

    name = "accounts"
    verbose_name = "People and roles"

    def ready(self) -> None:
        """Connect the receivers; have servers load the blocklists before a sign-up needs it, and deliver mail."""
        from accounts import (  # noqa: PLC0415 - models exist only once the registry is ready
            admin_step_up,
            audit_signals,
            breached_passwords,
            breached_service,
            mail_delivery,
            signals,
        )
        from accounts.weak_patterns import load_common_passwords  # noqa: PLC0415 - as above
        from ironauth.infrastructure.lifespan import on_shutdown, on_startup  # noqa: PLC0415 - as above

        signals.connect()
        audit_signals.connect()
        admin_step_up.connect()
        on_startup(load_common_passwords)
        on_startup(breached_passwords.open_at_start)
        on_startup(mail_delivery.start)
        on_shutdown(mail_delivery.stop)
        on_shutdown(breached_service.close)
