"""``manage.py deliver_mail``: the worker of ``IRONAUTH_MAIL_DELIVERY=worker``, as a service of its own."""

import asyncio
import os
import signal
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounts.outbox.delivery import MailDelivery
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry import logs

UMASK = 0o077  # mail written to files holds tokens


class Command(BaseCommand):
    """Send queued messages until SIGTERM or Ctrl-C; any number of these may run at once."""

    help = "Send queued e-mail until stopped."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add --once."""
        parser.add_argument("--once", action="store_true", help="send what is due now, then end (for a timer)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Deliver; with --once, exit status 1 when the database cannot be reached."""
        os.umask(UMASK)
        try:
            asyncio.run(_once() if options["once"] else _until_stopped())
        except Unavailable as error:
            raise CommandError("The database cannot be reached: check DATABASE_URL and try again.") from error
        finally:
            database().close()
            logs.flush()


async def _once() -> None:
    delivery = MailDelivery()
    try:
        await delivery.deliver_due()
    finally:
        await delivery.stop()


async def _until_stopped() -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    delivery = MailDelivery()
    await delivery.start()
    logs.get_logger().info("mail_worker_started")
    await stopped.wait()
    await delivery.stop()
