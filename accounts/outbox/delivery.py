"""Delivering the queue of messages, each rendered where it is sent.

Every process that serves does it, unless ``IRONAUTH_MAIL_DELIVERY=worker`` leaves it to ``manage.py deliver_mail``.
"""

import asyncio
from smtplib import SMTPRecipientsRefused
from typing import Final

from django.conf import settings
from django.core.mail import mailers

from accounts.outbox import queue as outbox
from accounts.outbox import rendering as mail_rendering
from accounts.outbox.queue import Claimed
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.db.outbox import LEASE_S, QueueDelivery
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger

STOP_S: Final = 5.0  # seconds a stopping process waits for messages on their way; the server has 10 in all
SENT_TRIES: Final = 5  # attempts to forget a sent message, before its lease ends and it is sent again
#: Replies that refuse this recipient forever: no such mailbox, moved away, no name of one (RFC 5321 §4.2.3).
NOBODY: Final = frozenset({550, 551, 553})
#: The same with such a status is about this sender (RFC 3463 §3.8): a relay that does not know us yet may tomorrow.
POLICY: Final = b"5.7."

FILES: Final = "django.core.mail.backends.filebased.EmailBackend"

log = get_logger()


class MailDelivery(QueueDelivery[Claimed]):
    """Delivers the queue of messages; one per process, on one event loop."""

    name = "mail"
    failed = "mail_delivery_failed"
    stop_s = STOP_S
    due = staticmethod(outbox.due)
    claim = staticmethod(outbox.claim)

    async def deliver(self, mail: Claimed) -> None:
        """Send one message and say in the queue how it went."""
        try:
            await self._send(mail)
        except Exception as error:  # noqa: BLE001 - whatever it was, the message stays and is tried again
            code, text = _reply(error)
            for_good = isinstance(error, SMTPRecipientsRefused) and code in NOBODY and not text.startswith(POLICY)
            given_up = await database().write(outbox.failed, mail, for_good=for_good)
            event, name = (log.error, "mail_given_up") if given_up else (log.warning, "mail_failed")
            # Not the error's text: mail servers repeat the address in it.
            cause = type(error).__name__
            event(name, mail_id=str(mail.id), kind=mail.kind, tries=mail.tries, cause=cause, smtp_code=code)
            return
        await self._forget(mail)
        log.info("mail_sent", mail_id=str(mail.id), kind=mail.kind, tries=mail.tries)

    async def _send(self, mail: Claimed) -> None:
        """Render and send on a thread, keeping the lease meanwhile. Raises whatever went wrong."""
        sending = asyncio.ensure_future(self._executor.offload(send, mail))
        while not (await asyncio.wait([sending], timeout=LEASE_S / 3))[0]:
            try:
                await database().write(outbox.keep, mail)
            except Unavailable:
                log.warning("mail_lease_not_kept", mail_id=str(mail.id))
        await sending

    async def _forget(self, mail: Claimed) -> None:
        """Delete a message that was sent; a database that does not answer now is asked again."""
        for tries_left in reversed(range(SENT_TRIES)):
            try:
                await database().write(outbox.sent, mail)
            except Unavailable:
                if not tries_left:
                    raise
                await asyncio.sleep(1)
            else:
                return


def _reply(error: Exception) -> tuple[int | None, bytes]:
    """Return the mail server's code and text, or None and nothing for an error that is not its own."""
    if isinstance(error, SMTPRecipientsRefused):  # by recipient, and a message here has one
        return next(iter(error.recipients.values()))
    return getattr(error, "smtp_code", None), b""


def send(mail: Claimed) -> None:
    """Render the message and hand it to the mail server, on this thread.

    Raises:
        Exception: What rendering and sending raise.
    """
    mailers["default"].send_messages([mail_rendering.render(mail)])


_shared: MailDelivery | None = None


async def start() -> None:
    """Deliver from this process, if that is its business."""
    global _shared  # noqa: PLW0603 - one per process is the point
    if settings.MAILERS["default"]["BACKEND"] == FILES and not settings.DEBUG:
        log.warning("mail_stays_here", remedy="set EMAIL_URL to a mail server: messages go to files, nobody gets them")
    if settings.IRONAUTH_MAIL_DELIVERY == "server":
        _shared = MailDelivery()
        await _shared.start()


async def stop() -> None:
    """End what ``start`` started."""
    global _shared
    delivery, _shared = _shared, None
    if delivery is not None:
        await delivery.stop()
