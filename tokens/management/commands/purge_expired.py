"""``manage.py purge_expired``: for cron or a systemd timer, once a day."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ironauth.infrastructure.core.stdio import ignore_broken_pipe
from tokens.purge import DEFAULT_BATCH, SESSION_KEEP_S, purge_expired


class Command(BaseCommand):
    """Delete ended sessions and whatever else has no use any more; print how many."""

    help = (
        "Delete accounts whose days of grace are over, ended sessions, the admin's too, old invalidations, "
        "finished keys, old counts, dead e-mail tokens, old invitations, old audit events and OAuth codes, in short "
        "transactions."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --batch and --keep-seconds."""
        parser.add_argument(
            "--batch", type=int, default=DEFAULT_BATCH, help="rows per transaction (default: %(default)s)"
        )
        parser.add_argument(
            "--keep-seconds", type=int, default=SESSION_KEEP_S, help="how long an ended session stays (default: a day)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Purge and print the counts."""
        if options["batch"] < 1 or options["keep_seconds"] < 0:
            raise CommandError("--batch must be at least 1 and --keep-seconds at least 0.")
        purged = purge_expired(batch=options["batch"], keep_s=options["keep_seconds"])
        with ignore_broken_pipe(self.stdout):
            self.stdout.write(
                f"deleted accounts={purged.accounts} accounts_kept={purged.accounts_kept} sessions={purged.sessions} "
                f"admin_sessions={purged.admin_sessions} invalidations={purged.invalidations} "
                f"signing_keys={purged.signing_keys} throttle_counts={purged.throttle_counts} "
                f"email_tokens={purged.email_tokens} mails={purged.mails} invitations={purged.invitations} "
                f"audit_events={purged.audit_events} admin_log={purged.admin_log} "
                f"used_once={purged.used_once} idempotency_keys={purged.idempotency_keys} "
                f"kept_devices={purged.kept_devices} left_addresses={purged.left_addresses} oauth={purged.oauth} "
                f"clients={purged.clients} registration_tokens={purged.registration_tokens} "
                f"organizations={purged.organizations}"
            )
