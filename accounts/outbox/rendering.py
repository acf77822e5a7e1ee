"""What a message says: three templates for each kind, rendered when it is sent.

``accounts/mail/<kind>.subject.txt``, ``.txt`` and ``.html``; a file of the same name in ``IRONAUTH_TEMPLATES`` takes
the place of ours. They see ``site`` (the host people know), ``issuer`` (its origin), ``token``, ``minutes`` (its life),
``link`` (the page it opens, with the token in it) and the ``facts`` of the message. Nothing that a stranger typed is in
ours: who signs up with another person's address and a name full of links must not have us send them.
"""

from email.message import EmailMessage
from email.policy import Policy, default
from email.utils import format_datetime
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.urls import reverse

from accounts import email_address as emails
from accounts.outbox.kinds import Kind
from accounts.outbox.queue import Claimed
from ironauth.infrastructure.core import clock

SUBJECT_CHARACTERS: Final = 200  # a header line may have 998 (RFC 5322 §2.1.1); people read sixty
LINE_CHARACTERS: Final = 998  # the longest line of a message, without its end (RFC 5322 §2.1.1)


class _Message(EmailMultiAlternatives):
    """A message whose plain text is sent as it is written, as long as it is ASCII.

    Beyond 78 characters a line would be quoted-printable: then a link in a file or on the console, where developers
    look for it, has an ``=3D`` and a break in its token. Other letters are encoded for mail servers without 8BITMIME.
    """

    def message(self, *, policy: Policy | None = None) -> EmailMessage:
        """Return the message in MIME; its header lines are folded as ``policy`` says."""
        folded = policy or default
        made = super().message(policy=folded.clone(max_line_length=LINE_CHARACTERS, cte_type="7bit"))
        made.policy = folded
        return made


def render(mail: Claimed) -> EmailMultiAlternatives:
    """Return the message, with the same Message-ID at every try, so that mailboxes can tell a repeated one.

    Raises:
        TemplateDoesNotExist: The kind has no templates.
        MasterKeyMissingError: The token is of a lost key.
        Exception: What templates raise.
    """
    token = mail.token
    issuer = urlsplit(settings.IRONAUTH_ISSUER)
    page = next((kind.page for kind in Kind if kind == mail.kind), "")  # of an earlier release: none
    context = {
        **mail.facts,
        "link": f"{settings.IRONAUTH_ISSUER}{reverse(page)}?token={token}" if page else None,
        "site": issuer.netloc,
        "issuer": settings.IRONAUTH_ISSUER,
        "token": token,
        "code": mail.code,
        "minutes": settings.IRONAUTH_EMAIL_TOKEN_MIN,
    }
    name = f"accounts/mail/{mail.kind}"
    subject = " ".join(render_to_string(f"{name}.subject.txt", context).split())[:SUBJECT_CHARACTERS]
    message = _Message(
        subject,
        render_to_string(f"{name}.txt", context),
        settings.IRONAUTH_MAIL_FROM,
        [emails.for_mail(mail.recipient)],
        headers={
            "Message-ID": f"<{mail.id}@{_domain()}>",
            "Date": format_datetime(clock.now()),
            "Auto-Submitted": "auto-generated",  # RFC 3834 §5: no holiday notice answers it
        },
    )
    message.attach_alternative(render_to_string(f"{name}.html", context), "text/html")
    return message


def _domain() -> str:
    """Return the domain of our Message-IDs: the sender's."""
    return str(settings.IRONAUTH_MAIL_FROM).rpartition("@")[2].rstrip(">")
