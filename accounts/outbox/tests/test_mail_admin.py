"""The queue of messages in the admin: who sees what of it, and having a message tried again."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from accounts.audit.models import AuditEvent
from accounts.conftest import MakeUser
from accounts.email import units as email_units
from accounts.outbox import queue as outbox
from accounts.outbox.kinds import Kind
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.users.models import User
from ironauth.infrastructure.core import clock

pytestmark = [pytest.mark.django_db, pytest.mark.storage]
QUEUE = "/admin/accounts/outgoingmail/"
KIND = Kind.PASSWORD_CHANGED


@pytest.fixture
def queue(make_user: MakeUser) -> dict[str, OutgoingMail]:
    """One message of each state, by its recipient's name."""
    now = clock.now()
    states: dict[str, dict[str, Any]] = {
        "new": {},
        "failing": {"tries": 3, "next_try_at": now + timedelta(hours=1)},
        "lost": {"tries": 30, "failed_at": now, "created_at": now - timedelta(days=2)},
        "moving": {"tries": 1, "claimed_until": now + timedelta(seconds=30)},
        "crashed": {"tries": 1, "claimed_until": now - timedelta(seconds=1)},
    }
    for name, columns in states.items():
        user = make_user(email=f"{name}@example.com")
        pk = outbox.enqueue(KIND, recipient=user.email, user_id=user.pk)
        OutgoingMail.objects.filter(pk=pk).update(**columns)
    outbox.enqueue(KIND, recipient="")  # asked for an unknown address
    return {mail.recipient.partition("@")[0]: mail for mail in OutgoingMail.objects.exclude(recipient="")}


def _shown(client: Client, query: str = "") -> set[str]:
    found = client.get(f"{QUEUE}?{query}").context["cl"].result_list
    return {mail.recipient.partition("@")[0] for mail in found}


def _try_again(client: Client, *mails: OutgoingMail, **more: str) -> str:
    body: dict[str, Any] = {"action": "try_again", "_selected_action": [str(mail.pk) for mail in mails]}
    page: str = client.post(QUEUE, body | more, follow=True).content.decode()
    return page


def test_what_is_listed(client: Client, root: User, queue: dict[str, OutgoingMail]) -> None:
    """Messages with a recipient, by state and by the beginning of the address; no other filter is taken."""
    assert _shown(client) == set(queue)
    assert _shown(client, "state=waiting") == {"new"}
    assert _shown(client, "state=failing") == {"failing", "moving", "crashed"}
    assert _shown(client, "state=given_up") == {"lost"}
    assert _shown(client, "q=LOST@") == {"lost"}
    assert _shown(client, f"user__id__exact={queue['new'].user_id}") == {"new"}
    page = client.get(QUEUE).content.decode()
    for state in ("Waiting", "Failing", "Being sent", "Given up"):
        assert f">{state}<" in page, state
    for lookup in ("token__nonce__startswith=a", "token__digest=a", "facts__contains=a", "user__password__gt=a"):
        assert client.get(f"{QUEUE}?{lookup}").status_code == 400, lookup


def test_no_token_is_shown(client: Client, root: User, make_user: MakeUser) -> None:
    """Neither list nor page as much as names the token of a message."""
    user = make_user()
    with transaction.atomic():
        email_units.request_reset(user.email_key)
    mail, token = OutgoingMail.objects.get(), EmailToken.objects.get()
    for path in (QUEUE, f"{QUEUE}{mail.pk}/change/"):
        answer = client.get(path)
        assert answer.status_code == 200
        page = answer.content.decode()
        assert user.email in page.replace("<wbr>", "")
        for secret in (str(token.pk), token.pk.hex, bytes(token.nonce).hex(), bytes(token.digest).hex()):
            assert secret not in page
        assert 'name="_save"' not in page


def test_rights(client: Client, make_user: MakeUser, queue: dict[str, OutgoingMail]) -> None:
    """Who may see users sees their messages; who may change them has messages tried again; others nothing."""
    client.force_login(make_user("accounts.view_auditevent", is_staff=True))
    assert client.get(QUEUE).status_code == 403
    assert QUEUE not in client.get("/admin/").content.decode()
    client.force_login(make_user("accounts.view_user", is_staff=True))
    assert _shown(client) == set(queue)
    _try_again(client, queue["lost"], confirmed="yes")
    assert OutgoingMail.objects.get(pk=queue["lost"].pk).failed_at is not None
    client.force_login(make_user("accounts.change_user", is_staff=True))
    assert "1 message will be tried again" in _try_again(client, queue["lost"], confirmed="yes")
    for path in (f"{QUEUE}add/", f"{QUEUE}{queue['new'].pk}/delete/"):
        assert client.get(path).status_code == 403


def test_trying_again(client: Client, root: User, queue: dict[str, OutgoingMail]) -> None:
    """It asks first; then everything that is not being sent is due at once, recorded for each, and can be claimed."""
    asked = _try_again(client, *queue.values())
    assert "Try to send 4 messages again now?" in asked
    assert "lost@example.com: Password changed" in asked
    assert not AuditEvent.objects.filter(event="mail_retried").exists()
    assert "4 messages will be tried again at once." in _try_again(client, *queue.values(), confirmed="yes")
    assert set(outbox.due()) == {
        mail.pk for mail in OutgoingMail.objects.all() if mail.recipient != queue["moving"].recipient
    }
    claimed = outbox.claim(queue["lost"].pk)
    assert claimed is not None
    events = AuditEvent.objects.filter(event="mail_retried")
    assert {event.details["mail"] for event in events} == {
        str(mail.pk) for name, mail in queue.items() if name != "moving"
    }
    assert {event.actor_id for event in events} == {root.pk}
    assert outbox.failed(claimed)  # one try more, and no second day of them
    assert "Nothing to do" in _try_again(client, queue["moving"], confirmed="yes")
