"""What a deployment lacks is said at its start and by ``check --deploy``."""

from typing import Any

import pytest
from django.core.checks import registry, run_checks
from pytest_django import Settings
from structlog.testing import capture_logs

from accounts.outbox import checks as mail_checks
from ironauth.config import mail as setting_mail

NOBODY = ("consolemail://", "filemail:///var/mail")
PEOPLE = ("smtp://127.0.0.1", "smtp+tls://ironauth:hush@mail.example.com", "smtp+ssl://mail.example.com")


@pytest.mark.parametrize(("url", "warned"), [*((url, True) for url in NOBODY), *((url, False) for url in PEOPLE)])
def test_a_deployment_whose_mail_reaches_nobody_is_warned_of(settings: Settings, url: str, warned: bool) -> None:
    """One warning in the log and one of the check, each with the remedy, without a mail server and not with one."""
    settings.MAILERS = {"default": setting_mail.mailer(url, "EMAIL_URL", timeout_s=10.0)}
    with capture_logs() as logged:
        mail_checks.warn_of_no_mail()
    found = [
        message
        for message in run_checks(tags=["security"], include_deployment_checks=True)
        if message.id == "ironauth.W001"
    ]
    assert [(event["event"], event["log_level"]) for event in logged] == [("mail_reaches_nobody", "warning")] * warned
    assert len(found) == warned
    for said in (*(event["remedy"] for event in logged), *(message.hint for message in found)):
        assert "EMAIL_URL=smtp+tls://" in str(said)


def test_only_deployments_are_checked() -> None:
    """A development machine has no mail server, and its checks are quiet."""
    mail: Any = mail_checks.check_mail
    assert mail in registry.registry.deployment_checks
    assert mail not in registry.registry.registered_checks
