"""``manage.py reseal_secrets``: second factors, sign-in providers and kept tokens stop needing an old master key."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts.audit import recording as audit
from accounts.audit.recording import Event, Outcome
from accounts.federation import kept_tokens
from accounts.federation import secrets as provider_secrets
from accounts.mfa import factors
from ironauth.infrastructure.core.stdio import ignore_broken_pipe
from ironauth.infrastructure.crypto.master_keys import newest_master_key_id

DEFAULT_BATCH = 200  # rows; some milliseconds of one transaction


class Command(BaseCommand):
    """Seal secrets of second factors and providers under the newest master key; say how many do not open."""

    help = (
        "Seal the secrets of second factors, ours at sign-in providers, and the tokens that are kept of them, under "
        "the first of IRONAUTH_MASTER_KEYS. "
        "Run it after a new key was put in front and every server has it; sessions and e-mail links still need the "
        "older key until they end."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --batch."""
        parser.add_argument(
            "--batch", type=int, default=DEFAULT_BATCH, help=f"rows per transaction (default: {DEFAULT_BATCH})"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Reseal; fails when some secrets do not open."""
        if options["batch"] < 1:
            raise CommandError("--batch must be at least 1.")
        parts = [part.reseal(batch=options["batch"]) for part in (factors, provider_secrets, kept_tokens)]
        apps, providers, tokens = parts
        resealed, left = sum(part.resealed for part in parts), sum(part.left for part in parts)
        newest = newest_master_key_id()
        outcome = Outcome.FAILURE if left else Outcome.SUCCESS
        details = {"resealed": resealed, "left": left, "master_key": newest}
        audit.record(Event.SECRETS_RESEALED, outcome=outcome, details=details)
        with ignore_broken_pipe(self.stdout):
            self.stdout.write(f"resealed={resealed} left={left} newest={newest}")
        if left:
            raise CommandError(
                f"{left} secrets do not open: put their master key back into IRONAUTH_MASTER_KEYS and run this again, "
                f"or reset second factors of people ({apps.left}) and give client secrets of providers "
                f"({providers.left}) anew. Tokens at providers ({tokens.left}) come anew with each person's next "
                "sign-in there."
            )
