"""``manage.py changepassword``: a person hears of each change of their password."""

from io import StringIO

import pytest
from django.contrib.auth.management.commands import changepassword
from django.core.management import CommandError, call_command

from accounts.audit.models import AuditEvent
from accounts.conftest import MakeUser
from accounts.outbox.models import OutgoingMail

pytestmark = [pytest.mark.django_db, pytest.mark.storage]

NEW_PASSWORD = "seven quiet lanterns over Bern"


def change(email: str) -> None:
    """Run the command, and type the new password."""
    call_command("changepassword", email, stdout=StringIO(), stderr=StringIO())


@pytest.mark.parametrize(("typed", "events"), [(NEW_PASSWORD, 1), ("short", 0)])
def test_a_changed_password_is_recorded_and_announced(
    typed: str, events: int, make_user: MakeUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Done by nobody who signed in; one that the policy refuses changes nothing and leaves nothing."""
    user = make_user(email="mia@example.com")
    monkeypatch.setattr(changepassword.Command, "_get_pass", lambda *_: typed)
    if events:
        change(user.email)
    else:
        with pytest.raises(CommandError, match="Aborting"):
            change(user.email)
    user.refresh_from_db()
    assert user.check_password(NEW_PASSWORD) == bool(events)
    found = AuditEvent.objects.filter(event="password_changed").values_list("user_id", "actor_id", "outcome")
    assert list(found) == [(user.pk, None, "success")] * events
    mails = OutgoingMail.objects.values_list("kind", "recipient", "user_id")
    assert list(mails) == [("password_changed", "mia@example.com", user.pk)] * events


def test_nobody_leaves_nothing() -> None:
    """An address without an account is an error, as in Django."""
    with pytest.raises(CommandError, match="does not exist"):
        change("nobody@example.com")
    assert not AuditEvent.objects.exists()
