"""Settings of outgoing mail: the mail server's URL, the sender, and a folder of templates.

Each function returns what may be used, or raises ``ImproperlyConfigured`` in one line that names the variable and the
remedy, and never repeats the value: a mail server's URL holds its password.
"""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.validators import EmailValidator

from ironauth.config.addresses import is_local
from ironauth.config.environment import Environment

CONSOLE = "consolemail://"
CONSOLE_BACKEND = "accounts.outbox.console.EmailBackend"  # Django's prints MIME: nobody can copy a link from it
SMTP_SCHEMES = ("smtp", "smtp+tls", "smtp+ssl")
DEFAULT_PORTS = {"smtp": 25, "smtp+tls": 587, "smtp+ssl": 465}  # RFC 5321 §4.5.4.2, RFC 6409 §3.1, RFC 8314 §3.3


def mailer(url: str, name: str, *, timeout_s: float) -> dict[str, Any]:
    """Return Django's description of the mailer behind ``url``: a mail server, the console, or files in a folder.

    Args:
        url: EMAIL_URL.
        name: Of the variable, for messages.
        timeout_s: Of every exchange with the mail server, in seconds.

    Raises:
        ImproperlyConfigured: It is no such URL, has a user or a password alone, or would send a password to another
            machine without TLS.
    """
    remedy = (
        "write smtp+tls://user:password@host:587 (STARTTLS), smtp+ssl://user:password@host:465, smtp://host:25 (no "
        "TLS), filemail:///absolute/folder or consolemail://, special characters of the password as %XX"
    )
    try:
        parts = urlsplit(url)
        port = parts.port
        found: dict[str, Any] = environ.Env.email_url_config(url)
    except (ValueError, ImproperlyConfigured):
        raise ImproperlyConfigured(f"{name} is not a mail URL: {remedy}") from None
    plain = not (parts.query or parts.fragment)
    backend = {"BACKEND": found["EMAIL_BACKEND"]}
    if url == CONSOLE:
        return {"BACKEND": CONSOLE_BACKEND}
    if parts.scheme == "filemail" and plain and not parts.netloc and len(parts.path) > 1:
        return backend | {"OPTIONS": {"file_path": f"/{found['EMAIL_FILE_PATH']}"}}
    if parts.scheme not in SMTP_SCHEMES or not plain or not parts.hostname or parts.path not in ("", "/") or port == 0:
        raise ImproperlyConfigured(f"{name} is not a mail URL: {remedy}")
    user, password = found["EMAIL_HOST_USER"], found["EMAIL_HOST_PASSWORD"]
    if bool(user) != bool(password):
        raise ImproperlyConfigured(f"{name} has a user or a password alone, with which nobody signs in: {remedy}")
    if user and parts.scheme == "smtp" and not is_local(parts.hostname):
        raise ImproperlyConfigured(f"{name} would send the password unencrypted to another machine: {remedy}")
    options = {
        "host": parts.hostname,
        "port": port or DEFAULT_PORTS[parts.scheme],
        "username": user or "",
        "password": password or "",
        "use_tls": parts.scheme == "smtp+tls",
        "use_ssl": parts.scheme == "smtp+ssl",
        "timeout": timeout_s,
    }
    return backend | {"OPTIONS": options}


def names_server(mailer: dict[str, Any]) -> bool:
    """Return whether a mailer reaches people, which console and files do not."""
    return "host" in mailer.get("OPTIONS", {})


def verification(env: Environment, mailer: dict[str, Any], *, debug: bool) -> str:
    """Return whether new accounts prove their address: by default ``required`` where mail goes out, without DEBUG.

    Only ``required`` keeps a sign-up from telling who has an account. Where no mail goes out, it would let nobody in.

    Args:
        env: Where the setting is read from.
        mailer: The settings of outgoing mail.
        debug: DEBUG.
    """
    default = "required" if names_server(mailer) and not debug else "off"
    return env.choice("IRONAUTH_EMAIL_VERIFICATION", choices=("off", "optional", "required"), default=default)


def sender(value: str, name: str) -> str:
    """Return the address that messages come from.

    Args:
        value: The text of the setting.
        name: The setting, for the error.

    Raises:
        ImproperlyConfigured: It is not an e-mail address.
    """
    try:
        EmailValidator(allowlist=["localhost"])(value)
    except ValidationError:
        raise ImproperlyConfigured(f"{name} is not an e-mail address: write it like no-reply@example.com") from None
    return value


def default_sender(issuer: str) -> str:
    """Return ``no-reply`` at the issuer's host; at ``localhost`` when that is an address of this machine."""
    host = urlsplit(issuer).hostname or ""
    return f"no-reply@{'localhost' if is_local(host) or '.' not in host or host.replace('.', '').isdigit() else host}"


def template_folders(value: str, name: str) -> list[str]:
    """Return the folder whose templates take the place of ours, as a list; empty stands for none.

    Args:
        value: The text of the setting.
        name: The setting, for the error.

    Raises:
        ImproperlyConfigured: It is not an absolute path of a folder.
    """
    if not value:
        return []
    if not Path(value).is_absolute() or not Path(value).is_dir():
        raise ImproperlyConfigured(f"{name} is not an absolute path of a folder: make the folder, or remove it")
    return [value]
