"""Settings of outgoing mail."""

from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.mail import mailers
from django.test import override_settings

from ironauth.config import mail as setting_mail
from ironauth.config.environment import Environment
from ironauth.tests.test_boot import start

SMTP = "django.core.mail.backends.smtp.EmailBackend"


def mailer(url: str) -> dict[str, Any]:
    """Read a mail URL."""
    return setting_mail.mailer(url, "EMAIL_URL", timeout_s=7)


@pytest.mark.parametrize(
    ("url", "host", "port", "user", "password", "tls", "ssl"),
    [
        (
            "smtp+tls://mia:p%40ss%3Aword@mail.example.com:2525",
            "mail.example.com",
            2525,
            "mia",
            "p@ss:word",
            True,
            False,
        ),
        ("smtp+tls://mail.example.com", "mail.example.com", 587, "", "", True, False),
        ("smtp+ssl://a%40b.example:x@mail.example.com/", "mail.example.com", 465, "a@b.example", "x", False, True),
        ("smtp://10.0.0.7", "10.0.0.7", 25, "", "", False, False),
        ("smtp://mia:x@127.0.0.1:1025", "127.0.0.1", 1025, "mia", "x", False, False),
    ],
)
def test_a_mail_server_is_read(url: str, host: str, port: int, user: str, password: str, tls: bool, ssl: bool) -> None:
    """Every part ends up where Django looks for it, with the port the protocol has by default."""
    assert mailer(url) == {
        "BACKEND": SMTP,
        "OPTIONS": {
            "host": host,
            "port": port,
            "username": user,
            "password": password,
            "use_tls": tls,
            "use_ssl": ssl,
            "timeout": 7,
        },
    }
    with override_settings(MAILERS={"default": mailer(url)}):
        assert mailers["default"].port == port  # type: ignore[attr-defined] # the SMTP backend has it


def test_files_and_the_console_are_read(tmp_path: Path) -> None:
    """Both for machines without a mail server; a folder with a space or plus sign too."""
    assert mailer("consolemail://") == {"BACKEND": "accounts.outbox.console.EmailBackend"}
    assert mailer("filemail:///var/a%20b%2Bc")["OPTIONS"] == {"file_path": "/var/a b+c"}


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mail.example.com",
        "smtp://",
        "smtp:///path",
        "smtp+tls://mail.example.com/path",
        "smtp+tls://mail.example.com:0",
        "smtp+tls://mail.example.com:65536",
        "smtp+tls://mail.example.com:port",
        "smtp+tls://mail.example.com?timeout=1",
        "smtp+tls://mail.example.com#x",
        "smtp+tls://mia@mail.example.com",
        "smtp+tls://:x@mail.example.com",
        "smtp://mia:x@mail.example.com",
        "smtps://mail.example.com",
        "http://mail.example.com",
        "filemail://",
        "filemail:///",
        "filemail://relative/path",
        "consolemail://x",
        "dummymail://",
        "memorymail://",
        "smtp+tls://[::1",
    ],
)
def test_anything_else_is_refused(url: str) -> None:
    """One line that names the variable and the remedy, and not the value."""
    with pytest.raises(ImproperlyConfigured) as refused:
        mailer(url)
    message = str(refused.value)
    assert message.startswith("EMAIL_URL ")
    assert "smtp+tls://user:password@host:587" in message
    assert message.count("://") == 5  # those of the remedy
    assert refused.value.__cause__ is None


def test_the_sender_is_an_address() -> None:
    """A display name, two addresses or nothing are refused."""
    for good in ("no-reply@example.com", "no-reply@localhost"):
        assert setting_mail.sender(good, "IRONAUTH_MAIL_FROM") == good
    for bad in ("", "example.com", "Us <no-reply@example.com>", "a@example.com, b@example.com", "a@b.c\nBcc: d@e.f"):
        with pytest.raises(ImproperlyConfigured, match="IRONAUTH_MAIL_FROM"):
            setting_mail.sender(bad, "IRONAUTH_MAIL_FROM")


@pytest.mark.parametrize(
    ("issuer", "expected"),
    [
        ("https://id.example.com", "no-reply@id.example.com"),
        ("https://id.example.com:8443", "no-reply@id.example.com"),
        ("http://127.0.0.1:8000", "no-reply@localhost"),
        ("https://192.0.2.1", "no-reply@localhost"),
        ("https://[2001:db8::1]", "no-reply@localhost"),
        ("https://intranet", "no-reply@localhost"),
    ],
)
def test_the_default_sender_is_always_valid(issuer: str, expected: str) -> None:
    """It follows the issuer where that has a name mail could come from."""
    assert setting_mail.default_sender(issuer) == expected
    assert setting_mail.sender(expected, "IRONAUTH_MAIL_FROM") == expected


def test_a_template_folder_exists(tmp_path: Path) -> None:
    """A path that is relative, a file, or missing would silently bring back our templates."""
    assert setting_mail.template_folders("", "IRONAUTH_TEMPLATES") == []
    assert setting_mail.template_folders(str(tmp_path), "IRONAUTH_TEMPLATES") == [str(tmp_path)]
    file = tmp_path / "file"
    file.touch()
    for bad in ("templates", str(file), str(tmp_path / "missing")):
        with pytest.raises(ImproperlyConfigured, match="IRONAUTH_TEMPLATES"):
            setting_mail.template_folders(bad, "IRONAUTH_TEMPLATES")


@pytest.mark.parametrize(
    ("url", "reaches"),
    [("smtp+tls://mail.example.com", True), ("consolemail://", False), ("filemail:///var/mail", False)],
)
def test_only_a_mail_server_reaches_people(url: str, reaches: bool) -> None:
    """Whether messages nobody asked for are worth writing depends on it."""
    assert setting_mail.names_server(setting_mail.mailer(url, "EMAIL_URL", timeout_s=10.0)) == reaches


@pytest.mark.parametrize(
    ("url", "debug", "default"),
    [
        ("smtp+tls://mail.example.com", False, "required"),
        ("smtp+tls://mail.example.com", True, "off"),
        ("smtp://127.0.0.1:1025", True, "off"),
        ("filemail:///var/mail", False, "off"),
        ("consolemail://", False, "off"),
        ("consolemail://", True, "off"),
    ],
)
def test_addresses_are_proved_where_mail_goes_out(url: str, debug: bool, default: str) -> None:
    """That is the default without DEBUG alone, and whatever is set explicitly is taken."""
    assert setting_mail.verification(Environment({}, {}), mailer(url), debug=debug) == default
    for wanted in ("off", "optional", "required"):
        env = Environment({"IRONAUTH_EMAIL_VERIFICATION": wanted}, {})
        assert setting_mail.verification(env, mailer(url), debug=debug) == wanted
    with pytest.raises(ImproperlyConfigured, match=f"IRONAUTH_EMAIL_VERIFICATION .* default, {default}$"):
        setting_mail.verification(Environment({"IRONAUTH_EMAIL_VERIFICATION": "yes"}, {}), mailer(url), debug=debug)


def test_the_settings_follow_the_mail_server() -> None:
    """A production start with EMAIL_URL alone requires the proof."""
    code = "import ironauth.settings as s; print(s.IRONAUTH_EMAIL_VERIFICATION)"
    assert start(["-c", code], {"EMAIL_URL": "smtp+tls://mail.example.com"}).stdout == "required\n"
