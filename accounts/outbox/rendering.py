"""What a message says: two templates for each kind, rendered when it is sent, in the language of the queued message.

``accounts/mail/<kind>.subject.txt`` and ``.txt``; a file of the same name in ``IRONAUTH_TEMPLATES`` takes the place of
ours. The HTML part has the same text: ``accounts/mail/message.html`` sets its paragraphs, or ``<kind>.html`` where a
deployment has one. Templates see ``site`` (IRONAUTH_BRAND_NAME), ``issuer`` (its origin), ``token``, ``minutes`` (its
life; an invitation's is ``days``), ``link`` (the page it opens, with the token in it) and the ``facts`` of the message.
Our templates show nothing that a stranger typed: otherwise anybody could sign up with another person's address and a
name full of links, and have us send them.
"""

import hashlib
from datetime import datetime
from email.message import EmailMessage
from email.policy import Policy, default
from email.utils import format_datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string, select_template
from django.urls import reverse
from django.utils import translation
from django.utils.formats import date_format
from django.utils.translation import gettext

from accounts import email_address as emails
from accounts.outbox.kinds import UNKNOWN_ADDRESS, Kind
from accounts.outbox.queue import Claimed
from ironauth.config.table.branding import image_type
from ironauth.infrastructure.core import clock, user_agents
from ironauth.infrastructure.http.brand import own_text

SUBJECT_CHARACTERS: Final = 200  # a header line may have 998 (RFC 5322 §2.1.1); people read sixty
LINE_CHARACTERS: Final = 998  # the longest line of a message, without its end (RFC 5322 §2.1.1)

#: Facts that are points in time, and what templates call them in words.
_TIMES: Final = {"seen_at": "time", "due_at": "due", "made_at": "made"}


class Part(NamedTuple):
    """A paragraph: ``kind`` is text, button, link, digits or token."""

    kind: str
    text: str
    label: str = ""


class Logo(NamedTuple):
    """An image that messages bring along: ``kind`` is png, jpeg or gif, ``cid`` is what the HTML calls it."""

    content: bytes
    kind: str
    cid: str


class _Message(EmailMultiAlternatives):
    """A message whose plain text is sent as it is written, as long as it is ASCII.

    The logo is in the message, beside its HTML part: nothing is loaded from elsewhere, which mail programs do not do
    unasked.

    Beyond 78 characters a line would be quoted-printable: then a link in a file or on the console, where developers
    look for it, has an ``=3D`` and a break in its token. Other letters are encoded for mail servers without 8BITMIME.
    """

    logo: Logo | None = None

    def message(self, *, policy: Policy | None = None) -> EmailMessage:
        """Return the message in MIME; its header lines are folded as ``policy`` says."""
        folded = policy or default
        made = super().message(policy=folded.clone(max_line_length=LINE_CHARACTERS, cte_type="7bit"))
        page = made.get_body(("html",))
        if self.logo is not None and page is not None:
            name = f"logo.{self.logo.kind}"
            page.add_related(
                self.logo.content,
                "image",
                self.logo.kind,
                cid=f"<{self.logo.cid}>",
                disposition="inline",
                filename=name,
            )
        made.policy = folded
        return made


def render(mail: Claimed) -> EmailMultiAlternatives:
    """Return the message, with the same Message-ID at every try, so that mailboxes can tell a repeated one.

    Raises:
        TemplateDoesNotExist: The kind has no templates.
        MasterKeyMissingError: The token is of a lost key.
        Exception: What templates raise.
    """
    with translation.override(mail.facts.get("language") or settings.LANGUAGE_CODE):
        return _rendered(mail)


def _rendered(mail: Claimed) -> EmailMultiAlternatives:
    token = mail.token
    own_page = next((kind.page for kind in Kind if kind == mail.kind), "")  # of an earlier release: none
    page = mail.facts.get("page") or own_page
    context = {
        **mail.facts,
        **_told(mail.facts),
        "link": f"{settings.IRONAUTH_ISSUER}{reverse(page)}?token={token}" if page else None,
        "site": settings.IRONAUTH_BRAND_NAME,
        "issuer": settings.IRONAUTH_ISSUER,
        "token": token,
        "code": mail.code,
        "minutes": mail.minutes,
        "days": settings.IRONAUTH_INVITATION_TTL,
    }
    name = f"accounts/mail/{mail.kind}"
    subject = " ".join(render_to_string(f"{name}.subject.txt", context).split())[:SUBJECT_CHARACTERS]
    text = render_to_string(f"{name}.txt", context)
    footer = own_text(settings.IRONAUTH_BRAND_FOOTER)
    message = _Message(
        subject,
        f"{text.rstrip()}\n\n{footer}\n" if footer else text,
        settings.IRONAUTH_MAIL_FROM,
        [emails.for_mail(mail.recipient)],
        headers={
            "Message-ID": f"<{mail.id}@{_domain()}>",
            "Date": format_datetime(clock.now()),
            "Auto-Submitted": "auto-generated",  # RFC 3834 §5: no holiday notice answers it
        },
    )
    template = select_template([f"{name}.html", "accounts/mail/message.html"])
    shown = {
        **context,
        "subject": subject,
        "language": translation.get_language(),
        "parts": _parts(text, subject, mail, context),
    }
    message.logo = _logo(settings.IRONAUTH_BRAND_MAIL_LOGO)
    shown["logo"] = message.logo.cid if message.logo is not None else ""
    message.attach_alternative(template.render(shown), "text/html")
    return message


def _told(facts: dict[str, Any]) -> dict[str, str]:
    """Return what is words in the facts of a message, in its language."""
    told = {name: _moment(facts[at]) for at, name in _TIMES.items() if at in facts}
    if "browser" in facts:
        told["device"] = user_agents.described(facts["browser"], facts["system"])
    if facts.get("address") == UNKNOWN_ADDRESS:
        told["address"] = gettext(UNKNOWN_ADDRESS)
    return told


def _moment(text: str) -> str:
    """Return e.g. "28 November 2026, 14:05 UTC" for a point in time in ISO 8601, in the language of the message."""
    return f"{date_format(datetime.fromisoformat(text), 'MOMENT_FORMAT')} UTC"


def _parts(text: str, subject: str, mail: Claimed, context: dict[str, Any]) -> list[Part]:
    """Return the paragraphs of a text; an address or a code alone in one is shown as such.

    The subject of a message with a link says what the link does, but for a deletion, a code and an account that exists.
    """
    sign_in = gettext("Sign in")
    labels = {
        Kind.ACCOUNT_DELETION: gettext("Restore the account"),
        Kind.SIGN_IN_CODE: sign_in,
        Kind.ACCOUNT_EXISTS: sign_in,
    }
    label = next((text for kind, text in labels.items() if kind == mail.kind), subject)
    alone = {
        context["link"]: Part("button", context["link"] or "", label),
        context["code"]: Part("digits", context["code"] or ""),
        context["token"]: Part("token", context["token"] or ""),
    }
    paragraphs = (one.strip() for one in text.split("\n\n"))
    parts = []
    for paragraph in filter(None, paragraphs):
        is_address = paragraph.startswith(f"{settings.IRONAUTH_ISSUER}/") and " " not in paragraph
        parts.append(alone.get(paragraph) or Part("link" if is_address else "text", paragraph))
    return parts


@lru_cache(maxsize=1)  # a server has one, and sends it with every message
def _logo(path: str) -> Logo | None:
    """Return the logo of messages; None without one."""
    if not path:
        return None
    content = Path(path).read_bytes()
    cid = f"logo.{hashlib.sha256(content).hexdigest()[:16]}@{_domain()}"
    return Logo(content, image_type(Path(path)), cid)


def _domain() -> str:
    """Return the domain of our Message-IDs: the sender's."""
    return str(settings.IRONAUTH_MAIL_FROM).rpartition("@")[2].rstrip(">")
