"""Messages on a developer's console: readable, with links that can be copied."""

import io

import pytest
from django.core.mail import EmailMultiAlternatives, mailers
from django.test import override_settings

from accounts.outbox import queue as outbox
from accounts.outbox import rendering as mail_rendering
from accounts.outbox import tokens as email_tokens
from accounts.outbox.console import EmailBackend
from accounts.outbox.kinds import Kind
from accounts.outbox.models import EmailToken
from accounts.outbox.tokens import Purpose
from ironauth.config import mail as setting_mail
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.crypto.master_keys import newest_master_key_id

MAILERS = {"default": setting_mail.mailer("consolemail://", "EMAIL_URL", timeout_s=1.0)}


def test_a_german_message_is_printed_as_it_reads(capsys: pytest.CaptureFixture[str]) -> None:
    """Umlauts are letters, the link is whole and on a line of its own, and neither headers nor HTML are there."""
    row = EmailToken(purpose=Purpose.RESET_PASSWORD, nonce=b"n" * 32, master_key_id=newest_master_key_id())
    facts = {"language": "de"}
    claimed = outbox.Claimed(new_id(), Kind.RESET_PASSWORD, "mia@example.com", 1, clock.now(), facts, row)
    message = mail_rendering.render(claimed)
    with override_settings(MAILERS=MAILERS):
        assert mailers["default"].send_messages([message]) == 1
    printed = capsys.readouterr().out
    assert printed == f"To: mia@example.com\nSubject: {message.subject}\n\n{message.body.strip()}\n{'-' * 79}\n"
    assert f"http://localhost:8000/password/reset?token={email_tokens.text(row)}" in printed.split()
    assert any(letter in printed for letter in "äöü")
    assert "=3D" not in printed
    assert "<" not in printed


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8", "Grüße"), ("ascii", r"Gr\xfc\xdfe")])
def test_a_console_without_a_letter(encoding: str, shown: str) -> None:
    """It is escaped, and the message counts as delivered; a subject is one line in any case."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    message = EmailMultiAlternatives("Hello\n there", "Grüße\n", to=["a@example.com", "b@example.com"])
    assert EmailBackend(stream=stream).send_messages([message]) == 1
    head, text = raw.getvalue().decode(encoding).split("\n\n")
    assert head == "To: a@example.com, b@example.com\nSubject: Hello there"
    assert text == f"{shown}\n{'-' * 79}\n"
