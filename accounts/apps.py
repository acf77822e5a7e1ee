"""The accounts application: who a person is."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Register the signal receivers that tell every worker when an account changes."""

    name = "accounts"
    verbose_name = "People and roles"

    def ready(self) -> None:
        """Connect the receivers; have servers load the blocklists before a sign-up needs it, and deliver mail."""
        from accounts import signals  # noqa: PLC0415 - models exist only once the registry is ready
        from accounts.admin.access import audit_signals  # noqa: PLC0415 - models exist only once the registry is ready
        from accounts.admin.access import step_up as admin_step_up  # noqa: PLC0415 - models exist only once the registry is ready
        from accounts.mfa import factors  # noqa: PLC0415 - as below
        from accounts.outbox import delivery as mail_delivery  # noqa: PLC0415 - models exist only once the registry is ready
        from accounts.passwords import breached as breached_passwords  # noqa: PLC0415 - models exist only once the registry is ready
        from accounts.passwords import (  # noqa: PLC0415 - models exist only once the registry is ready
            breached_service,
        )
        from accounts.passwords.weak_patterns import load_common_passwords  # noqa: PLC0415 - as above
        from ironauth.infrastructure.core.startup import on_shutdown, on_startup  # noqa: PLC0415 - as above

        factors.register()
        signals.connect()
        audit_signals.connect()
        admin_step_up.connect()
        on_startup(load_common_passwords)
        on_startup(breached_passwords.open_at_start)
        on_startup(mail_delivery.start)
        on_shutdown(mail_delivery.stop)
        on_shutdown(breached_service.close)
