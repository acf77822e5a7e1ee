"""Messages on their way: through a real mail server, by several workers, and through everything that goes wrong."""

import asyncio
import email.policy
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core import mail
from django.template import TemplateDoesNotExist
from django.test import override_settings
from structlog.testing import capture_logs

from accounts.audit.models import AuditEvent
from accounts.conftest import MakeUser
from accounts.outbox import delivery as mail_delivery
from accounts.outbox import queue as outbox
from accounts.outbox import rendering as mail_rendering
from accounts.outbox import tokens as email_tokens
from accounts.outbox.delivery import MailDelivery
from accounts.outbox.kinds import Kind
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.outbox.tests.smtp_server import SmtpServer
from accounts.outbox.tokens import Purpose
from conftest import ServeProcess, process_environment
from ironauth.config import mail as setting_mail
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.crypto.master_keys import newest_master_key_id
from ironauth.infrastructure.db import outbox as queue_delivery
from ironauth.infrastructure.db.outbox import GIVE_UP_S, LEASE_S, MAX_DUE
from ironauth.infrastructure.db.unit_of_work import database, is_pool_thread

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


@pytest.fixture
def smtp() -> Iterator[SmtpServer]:
    """Run a mail server."""
    with SmtpServer() as server:
        yield server


def through(server: SmtpServer, timeout_s: float = 2.0) -> Any:
    """Deliver by this mail server inside the block, in this process."""
    return override_settings(MAILERS={"default": setting_mail.mailer(server.url, "EMAIL_URL", timeout_s=timeout_s)})


async def queue(count: int = 1, kind: Kind = Kind.PASSWORD_CHANGED) -> None:
    """Queue messages to person-0@example.com and so on."""
    for number in range(count):
        await database().write(outbox.enqueue, kind, recipient=f"person-{number}@example.com")


async def rows() -> list[OutgoingMail]:
    """Return what is in the queue."""
    return await database().read(lambda: list(OutgoingMail.objects.order_by("pk")))


async def test_a_message_arrives_complete(smtp: SmtpServer, make_user: MakeUser) -> None:
    """Text and HTML, sender, subject, date, a Message-ID of its own, and the token in both parts; the row is gone."""

    def ask() -> str:
        user = make_user(email="mia@example.com")
        token_id = email_tokens.issue(purpose=Purpose.RESET_PASSWORD, user_id=user.pk)
        outbox.enqueue(Kind.RESET_PASSWORD, recipient=user.email, user_id=user.pk, token_id=token_id)
        return email_tokens.text(EmailToken.objects.get())

    token = await sync_to_async(ask)()
    (row,) = await rows()
    with through(smtp):
        assert await MailDelivery().deliver_due() == 1
    (message,) = smtp.received
    assert (message["To"], message["From"]) == ("mia@example.com", settings.IRONAUTH_MAIL_FROM)
    assert message["Subject"] == "Choose a new password"
    assert message["Message-ID"] == f"<{row.pk}@localhost>"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["Date"].datetime is not None
    for kind in ("plain", "html"):
        part = message.get_body((kind,))
        assert part is not None
        assert token in part.get_content()
        assert f"http://localhost:8000/password/reset?token={token}" in part.get_content()
        assert "30 minutes" in part.get_content()
    assert await rows() == []


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_has_its_templates(kind: Kind) -> None:
    """Each renders to a subject of one line, a text without markup and a page, and nothing is left unfilled."""
    row = EmailToken(purpose=Purpose.RESET_PASSWORD, nonce=b"n" * 32, master_key_id=newest_master_key_id())
    with_code = kind in (Kind.SIGN_IN_CODE, Kind.CONFIRMATION_CODE)
    row.code_tries = 0 if with_code else None
    claimed = outbox.Claimed(new_id(), kind, "mia@example.com", 1, clock.now(), {}, row)
    token = email_tokens.text(row)
    message = mail_rendering.render(claimed)
    html = str(message.alternatives[0][0])
    assert message.subject
    assert "\n" not in message.subject
    assert "localhost:8000" in message.body
    assert "localhost:8000" in html
    assert "<" not in message.body
    assert (token in message.body) == (token in html) == bool(Kind(kind).page)
    assert message.body.count(token) == message.body.count(f"?token={token}")  # in the link alone
    assert html.count(token) == html.count(f"?token={token}")
    assert (email_tokens.code(row) in message.body) == (email_tokens.code(row) in html) == with_code
    assert "None" not in message.body + html


@pytest.mark.parametrize("kind", list(Kind))
def test_a_message_links_to_what_it_asks_for(kind: Kind) -> None:
    """Where it says to sign in, or to ask for or choose a password, the page is a click away, at the issuer."""
    row = EmailToken(purpose=Purpose.RESET_PASSWORD, nonce=b"n" * 32, master_key_id=newest_master_key_id())
    claimed = outbox.Claimed(new_id(), kind, "mia@example.com", 1, clock.now(), {}, row)
    with override_settings(IRONAUTH_ISSUER="https://id.example.org", IRONAUTH_BRAND_NAME="id.example.org"):
        message = mail_rendering.render(claimed)
    html = str(message.alternatives[0][0])
    asked = re.sub("<[^>]+>", "", html)
    pages = {
        "/account/signin": "Sign in with it" in asked,
        "/account/forgot": bool(re.search(r"ask for a new (password( at once| here|\.)|one)", asked)),
        "/account/security": bool(re.search("change your password now|Choose a new one|end all other sessions", asked)),
    }
    for page, wanted in pages.items():
        link = f"https://id.example.org{page}"
        assert (f'<a href="{link}" ' in html) == wanted
        assert (link in message.body.split()) == wanted  # alone between spaces: nothing that a mail program takes along
    assert "localhost" not in message.body + html


@pytest.mark.parametrize("policy", [None, email.policy.SMTP])
def test_a_link_can_be_copied_from_a_file_or_the_console(policy: email.policy.Policy | None) -> None:
    """Nothing breaks a link or encodes it, while header lines stay as short as they are meant to be."""
    row = EmailToken(purpose=Purpose.RESET_PASSWORD, nonce=b"n" * 32, master_key_id=newest_master_key_id())
    claimed = outbox.Claimed(new_id(), Kind.RESET_PASSWORD, "mia@example.com", 1, clock.now(), {}, row)
    message = mail_rendering.render(claimed)
    message.subject = "Ein neues Paßwort " * 11
    head, _, body = message.message(policy=policy).as_bytes().decode("ascii").replace("\r\n", "\n").partition("\n\n")
    assert body.count(f"http://localhost:8000/password/reset?token={email_tokens.text(row)}") == 2  # text and page
    assert max(len(line) for line in head.splitlines()) <= 78


def test_letters_beyond_ascii_need_no_special_mail_server() -> None:
    """An operator's template in another language goes out in seven bits, however short its lines are."""
    claimed = outbox.Claimed(new_id(), Kind.PASSWORD_CHANGED, "mia@example.com", 1, clock.now(), {}, None)
    message = mail_rendering.render(claimed)
    message.body = "Grüße\n"
    made = message.message(policy=email.policy.SMTP)
    assert made.as_bytes().isascii()
    part = made.get_body(("plain",))
    assert part is not None
    assert part.get_content().strip() == "Grüße"


def test_an_operator_replaces_a_template(tmp_path: Path) -> None:
    """A file of the same name in the operator's folder takes the place of ours; subjects are one line in any case."""
    folder = tmp_path / "accounts" / "mail"
    folder.mkdir(parents=True)
    (folder / "password_changed.subject.txt").write_text("Hello\n\n  from us\r\nBcc: eve@example.com\n")
    ours = settings.TEMPLATES[0]
    claimed = outbox.Claimed(new_id(), "password_changed", "mia@example.com", 1, clock.now(), {}, None)
    with override_settings(TEMPLATES=[{**ours, "DIRS": [str(tmp_path)]}]):
        message = mail_rendering.render(claimed)
    assert message.subject == "Hello from us Bcc: eve@example.com"
    assert message.message()["Bcc"] is None
    with pytest.raises(TemplateDoesNotExist):
        mail_rendering.render(claimed._replace(kind="unknown"))


async def test_a_message_goes_to_the_very_domain(smtp: SmtpServer) -> None:
    """Not to that of the look-alike which an older mapping of its letters makes: it may be somebody else's."""
    await database().write(outbox.enqueue, Kind.PASSWORD_CHANGED, recipient="mia@stra\u00dfe.example")
    with through(smtp):
        assert await MailDelivery().deliver_due() == 1
    assert [message["To"] for message in smtp.received] == ["mia@xn--strae-oqa.example"]


@pytest.mark.parametrize("mood", ["refuses", "silent", "hangs"])
async def test_what_the_mail_server_does_not_accept_is_tried_again(mood: Any, smtp: SmtpServer) -> None:
    """Refused, or no answer in time: the row stays, nothing of the address is logged, a later try works."""
    await queue()
    smtp.mood = mood
    with through(smtp, timeout_s=0.3), capture_logs() as logged:
        began = time.perf_counter()
        await MailDelivery().deliver_due()
        assert time.perf_counter() - began < 3
    (row,) = await rows()
    assert (row.tries, row.claimed_until, row.failed_at) == (1, None, None)
    (event,) = [event for event in logged if event["event"] == "mail_failed"]
    assert event["cause"]
    assert "person-0" not in str(logged)
    smtp.mood = "friendly"
    with through(smtp), clock.shifted(60):
        await MailDelivery().deliver_due()
    assert [message["To"] for message in smtp.received] == ["person-0@example.com"]
    assert await rows() == []


async def test_nothing_listening_is_a_failure_like_any_other() -> None:
    """A mail server that is down loses nothing."""
    await queue(3)
    with SmtpServer() as gone:
        pass
    with through(gone):
        assert await MailDelivery().deliver_due() == 3
    assert [row.tries for row in await rows()] == [1, 1, 1]


async def test_a_message_is_given_up_after_a_day_with_an_error(smtp: SmtpServer) -> None:
    """The last failure is an error in the log, and the row is kept and marked."""
    await queue()
    smtp.mood = "refuses"
    with through(smtp), clock.shifted(GIVE_UP_S + 1), capture_logs() as logged:
        await MailDelivery().deliver_due()
        await MailDelivery().deliver_due()
    (row,) = await rows()
    assert row.failed_at is not None
    assert [(event["event"], event["log_level"]) for event in logged] == [("mail_given_up", "error")]
    assert smtp.connections == 1


@pytest.mark.parametrize("refusal", ["550", "550 5.1.1", "551 5.1.6", "553"])
async def test_a_recipient_refused_for_ever_is_given_up_at_once(refusal: str, smtp: SmtpServer) -> None:
    """A mailbox that does not exist will not tomorrow: one try, recorded, and the code in the log."""
    await queue()
    smtp.mood, smtp.refusal = "refuses", refusal
    with through(smtp), capture_logs() as logged:
        await MailDelivery().deliver_due()
    (row,) = await rows()
    assert (row.tries, row.claimed_until) == (1, None)
    assert row.failed_at is not None
    (event,) = logged
    assert (event["event"], event["smtp_code"]) == ("mail_given_up", int(refusal[:3]))
    assert "person-0" not in str(logged)
    trail = await database().read(lambda: list(AuditEvent.objects.values_list("event", "details")))
    assert trail == [("mail_given_up", {"mail": str(row.pk), "kind": row.kind})]


@pytest.mark.parametrize("refusal", ["450", "450 4.2.1", "452", "550 5.7.1", "552", "554"])
async def test_any_other_refusal_is_tried_again(refusal: str, smtp: SmtpServer) -> None:
    """A full mailbox may be emptied, and a relay that does not take our messages is no fault of the recipient."""
    await queue()
    smtp.mood, smtp.refusal = "refuses", refusal
    with through(smtp), capture_logs() as logged:
        await MailDelivery().deliver_due()
    (row,) = await rows()
    assert (row.tries, row.claimed_until, row.failed_at) == (1, None, None)
    assert [(event["event"], event["smtp_code"]) for event in logged] == [("mail_failed", int(refusal[:3]))]


async def test_a_crash_after_the_yes_sends_the_same_message_again(smtp: SmtpServer) -> None:
    """Once the lease is over the message is sent again with its Message-ID, so that mailboxes can tell."""
    await queue()
    (row,) = await rows()
    with through(smtp):
        claimed = await database().write(outbox.claim, row.pk)
        assert claimed is not None
        await asyncio.to_thread(mail_delivery.send, claimed)  # and the worker is gone
        assert await MailDelivery().deliver_due() == 0
        with clock.shifted(LEASE_S):
            assert await MailDelivery().deliver_due() == 1
    first, second = smtp.received
    assert first["Message-ID"] == second["Message-ID"]
    assert await rows() == []


async def test_a_yes_that_nobody_heard_is_asked_for_again(smtp: SmtpServer) -> None:
    """A connection lost after the message was taken in is a failure: the repeated message has the same Message-ID."""
    await queue()
    smtp.mood = "hangs up"
    with through(smtp):
        await MailDelivery().deliver_due()
        smtp.mood = "friendly"
        with clock.shifted(60):
            await MailDelivery().deliver_due()
    first, second = smtp.received
    assert first["Message-ID"] == second["Message-ID"]
    assert await rows() == []


async def test_nothing_is_sent_on_the_loop_or_a_database_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rendering and sending have threads of their own."""
    seen: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        mail_delivery, "send", lambda _mail: seen.append((threading.current_thread().name, is_pool_thread()))
    )
    await queue(2)
    await MailDelivery().deliver_due()
    assert len(seen) == 2
    assert all(re.fullmatch(r"mail-\d", name) and not in_pool for name, in_pool in seen)


async def test_a_slow_message_keeps_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is being sent its lease is renewed, so that nobody else takes it, however long that takes."""
    monkeypatch.setattr(mail_delivery, "LEASE_S", 0.15)
    release = threading.Event()
    monkeypatch.setattr(mail_delivery, "send", lambda _mail: release.wait(10))
    await queue()
    sending = asyncio.create_task(MailDelivery().deliver_due())
    leases: set[datetime | None] = set()
    deadline = time.monotonic() + 5
    while len(leases - {None}) < 3:
        assert time.monotonic() < deadline
        leases.add((await rows())[0].claimed_until)
        await asyncio.sleep(0.02)
    release.set()
    assert await sending == 1
    assert await rows() == []


async def test_one_bad_message_does_not_stop_the_others() -> None:
    """A kind without templates fails by itself."""
    await database().write(lambda: OutgoingMail.objects.create(kind="unknown", recipient="a@example.com"))
    await queue(3)
    await MailDelivery().deliver_due()
    assert len(mail.outbox) == 3
    assert [row.kind for row in await rows()] == ["unknown"]


async def test_tokens_of_a_lost_master_key_do_not_stop_the_others() -> None:
    """Their messages are tried again, as the key may come back, and given up after a day; the others are sent."""

    def ask() -> None:
        for _ in range(2 * queue_delivery.THREADS):
            token_id = email_tokens.issue(purpose=Purpose.RESET_PASSWORD, user_id=None)
            outbox.enqueue(Kind.RESET_PASSWORD, recipient="a@example.com", token_id=token_id)
        EmailToken.objects.update(master_key_id="lost")

    await database().write(ask)
    await queue(3)
    with capture_logs() as logged:
        await MailDelivery().deliver_due()
    assert len(mail.outbox) == 3
    assert {row.tries for row in await rows()} == {1}
    assert {event["cause"] for event in logged if event["event"] == "mail_failed"} == {"MasterKeyMissingError"}
    with clock.shifted(GIVE_UP_S + 1):
        await MailDelivery().deliver_due()
    assert None not in {row.failed_at for row in await rows()}


async def test_rows_for_nobody_do_not_hold_up_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many unknown addresses were asked about, one look at the queue gets to the message behind them."""

    def flood() -> None:
        for _ in range(MAX_DUE + 20):
            outbox.enqueue(Kind.RESET_PASSWORD, recipient="")

    await database().write(flood)
    await queue()
    assert await MailDelivery().deliver_due() == 1
    assert len(mail.outbox) == 1
    assert await rows() == []


async def test_two_deliverers_in_one_process_share_the_queue(smtp: SmtpServer) -> None:
    """Every message is sent once."""
    await queue(30)
    with through(smtp):
        counts = await asyncio.gather(*(MailDelivery().deliver_due() for _ in range(3)))
    assert sum(counts) == 30
    assert sorted(str(message["To"]) for message in smtp.received) == sorted(
        f"person-{number}@example.com" for number in range(30)
    )


@pytest.mark.live
def test_two_worker_processes_never_send_the_same_message(smtp: SmtpServer) -> None:
    """Two real workers, started together on forty messages: forty arrive, each once, and nothing is left."""
    for number in range(40):
        outbox.enqueue(Kind.PASSWORD_CHANGED, recipient=f"person-{number}@example.com")
    smtp.delay_s = 0.4  # one of them would need 4 seconds: time for the other to start
    environment = process_environment(EMAIL_URL=smtp.url, IRONAUTH_LOG_LEVEL="INFO")
    command = [sys.executable, "manage.py", "deliver_mail", "--once"]
    workers = [
        subprocess.Popen(
            command, cwd=settings.BASE_DIR, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for _ in range(2)
    ]
    outputs = [worker.communicate(timeout=60)[0].decode() for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], outputs
    ids = [message["Message-ID"] for message in smtp.received]
    assert len(ids) == 40
    assert len(set(ids)) == 40
    assert not OutgoingMail.objects.exists()
    assert all("mail_sent" in output for output in outputs)  # both did some of the work
    assert "person-" not in "".join(outputs)


@pytest.mark.live
def test_a_worker_delivers_until_it_is_told_to_stop(smtp: SmtpServer) -> None:
    """Without --once it goes on looking, and SIGTERM is a clean end."""
    command = [sys.executable, "manage.py", "deliver_mail"]
    environment = process_environment(EMAIL_URL=smtp.url, IRONAUTH_MAIL_DELIVERY="worker")
    with subprocess.Popen(command, cwd=settings.BASE_DIR, env=environment) as worker:
        for number in range(2):
            outbox.enqueue(Kind.PASSWORD_CHANGED, recipient=f"person-{number}@example.com")
            _wait_for(lambda count=number + 1: len(smtp.received) == count)  # type: ignore[misc] # a default is no type
        worker.terminate()
        assert worker.wait(15) == 0
    assert not OutgoingMail.objects.exists()


@pytest.mark.live
def test_a_server_delivers_by_itself(serve_process: ServeProcess, smtp: SmtpServer) -> None:
    """By default nothing else has to run."""
    outbox.enqueue(Kind.PASSWORD_CHANGED, recipient="mia@example.com")
    base = serve_process(EMAIL_URL=smtp.url)
    _wait_for(lambda: len(smtp.received) == 1)
    smtp.mood = "hangs"
    outbox.enqueue(Kind.PASSWORD_CHANGED, recipient="mia@example.com")
    _wait_for(lambda: smtp.connections == 2)
    began = time.perf_counter()
    assert httpx.get(f"{base}/health", timeout=5).status_code == 200  # a hanging mail server holds nothing else up
    assert time.perf_counter() - began < 1


@pytest.mark.live
def test_a_server_leaves_it_to_the_worker_when_told(serve_process: ServeProcess, smtp: SmtpServer) -> None:
    """With IRONAUTH_MAIL_DELIVERY=worker the server does not look at the queue."""
    outbox.enqueue(Kind.PASSWORD_CHANGED, recipient="mia@example.com")
    serve_process(EMAIL_URL=smtp.url, IRONAUTH_MAIL_DELIVERY="worker")
    time.sleep(1.5 * queue_delivery.POLL_S)
    assert OutgoingMail.objects.filter(tries=0).count() == 1
    assert smtp.connections == 0


def _wait_for(done: Callable[[], bool], limit_s: float = 20) -> None:
    deadline = time.monotonic() + limit_s
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)
