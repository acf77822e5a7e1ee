"""``manage.py createsuperuser --noinput``: the policy holds for the most powerful account too."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from accounts.conftest import PASSWORD
from accounts.management.commands.createsuperuser import _ask
from accounts.users.models import User

pytestmark = [pytest.mark.django_db, pytest.mark.storage]


def _create() -> None:
    call_command("createsuperuser", email="root.admin@example.com", interactive=False, verbosity=0, stderr=StringIO())


@pytest.mark.parametrize(
    ("password", "reason"),
    [("admin", "5 characters, at least 15"), ("rootadmin18521862!", "made of the name"), ("", "0 characters")],
)
def test_a_weak_password_is_refused(monkeypatch: pytest.MonkeyPatch, password: str, reason: str) -> None:
    """One line names the variable and the reason, and nobody is made."""
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", password)
    with pytest.raises(CommandError) as refused:
        _create()
    assert str(refused.value).startswith("DJANGO_SUPERUSER_PASSWORD: The password ")
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not User.objects.exists()


def test_a_good_password_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the policy accepts signs in."""
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
    _create()
    assert User.objects.get().check_password(PASSWORD)


def test_without_a_terminal_it_fails() -> None:
    """A script that forgets ``--noinput`` learns that nobody was made, and what to do."""
    with pytest.raises(CommandError, match="no terminal to ask on: set DJANGO_SUPERUSER_PASSWORD and use --noinput"):
        call_command("createsuperuser", stdin=StringIO())
    assert not User.objects.exists()


def test_without_a_password_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A superuser nobody can sign in as is not made."""
    monkeypatch.delenv("DJANGO_SUPERUSER_PASSWORD", raising=False)
    with pytest.raises(CommandError, match="Nobody could sign in without a password: set DJANGO_SUPERUSER_PASSWORD"):
        _create()
    assert not User.objects.exists()


def test_the_policy_cannot_be_bypassed_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Django's question whether to bypass validation is answered no, and every other one is asked."""
    monkeypatch.setattr("builtins.input", lambda prompt: f"typed at {prompt}")
    assert _ask("Bypass password validation and create user anyway? [y/N]: ") == "n"
    assert _ask("E-mail address: ") == "typed at E-mail address: "
