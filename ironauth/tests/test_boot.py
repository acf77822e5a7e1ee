"""A missing or insecure setting stops start-up and names itself and its remedy (ASVS 13.2.3)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from ironauth.settings_test import ENVIRONMENT

BAD_SETTINGS = {
    "no secret key": ({"SECRET_KEY": ""}, "SECRET_KEY"),
    "placeholder secret key": ({"SECRET_KEY": "change-me" * 10}, "SECRET_KEY"),
    "Django's generated placeholder": ({"SECRET_KEY": "django-insecure-" + "a1b2c3d4" * 8}, "SECRET_KEY"),
    "short secret key": ({"SECRET_KEY": "Zx81-short"}, "SECRET_KEY"),
    "no master key": ({"IRONAUTH_MASTER_KEYS": ""}, "IRONAUTH_MASTER_KEYS"),
    "short master key": ({"IRONAUTH_MASTER_KEYS": "k1:c2hvcnQ"}, "IRONAUTH_MASTER_KEYS"),
    "master key without id": ({"IRONAUTH_MASTER_KEYS": "A" * 43}, "IRONAUTH_MASTER_KEYS"),
    "no hosts": ({"ALLOWED_HOSTS": ""}, "ALLOWED_HOSTS"),
    "any host": ({"ALLOWED_HOSTS": "*"}, "ALLOWED_HOSTS"),
    "no issuer": ({"IRONAUTH_ISSUER": ""}, "IRONAUTH_ISSUER"),
    "plain http issuer": ({"IRONAUTH_ISSUER": "http://id.example.com"}, "IRONAUTH_ISSUER"),
    "unknown algorithm": ({"IRONAUTH_JWT_ALG": "HS256"}, "IRONAUTH_JWT_ALG"),
    "password floor": ({"IRONAUTH_PASSWORD_MIN_LENGTH": "7"}, "IRONAUTH_PASSWORD_MIN_LENGTH"),
    "weak argon2": ({"IRONAUTH_ARGON2_MEMORY_KIB": "1024", "IRONAUTH_ARGON2_TIME_COST": "1"}, "IRONAUTH_ARGON2"),
    "debug on a public address": ({"DEBUG": "1", "IRONAUTH_TEST_ARGUMENTS": "--host 0.0.0.0"}, "DEBUG"),
    "debug with a public issuer": ({"DEBUG": "1", "IRONAUTH_ISSUER": "https://id.example.com"}, "DEBUG=1"),
    "debug with a public host": ({"DEBUG": "1", "ALLOWED_HOSTS": "localhost,id.example.com"}, "DEBUG=1"),
    "debug with any host": ({"DEBUG": "1", "ALLOWED_HOSTS": "*"}, "ALLOWED_HOSTS"),
    "not a boolean": ({"IRONAUTH_COOKIE_SECURE": "maybe"}, "IRONAUTH_COOKIE_SECURE"),
    "insecure cookies in public": ({"IRONAUTH_ISSUER": "https://id.example.com"}, "IRONAUTH_COOKIE_SECURE=0"),
    "issuer with a slash": ({"IRONAUTH_ISSUER": "https://id.example.com/"}, "IRONAUTH_ISSUER"),
    "no audience": ({"IRONAUTH_AUDIENCE": ""}, "IRONAUTH_AUDIENCE"),
    "no network": ({"IRONAUTH_TRUSTED_PROXIES": "garbage"}, "IRONAUTH_TRUSTED_PROXIES, item 1"),
    "no origin": ({"IRONAUTH_TRUSTED_ORIGINS": "garbage"}, "IRONAUTH_TRUSTED_ORIGINS, item 1"),
    "passkeys for an address": ({"IRONAUTH_WEBAUTHN_RP_ID": "https://localhost"}, "IRONAUTH_WEBAUTHN_RP_ID"),
    "passkeys for another host": (
        {"IRONAUTH_WEBAUTHN_ORIGINS": "https://a.example"},
        "IRONAUTH_WEBAUTHN_ORIGINS, item 1",
    ),
    "endless session": ({"IRONAUTH_SESSION_ABSOLUTE_S": "9999999999999"}, "IRONAUTH_SESSION_ABSOLUTE_S"),
    "idle beyond absolute": (
        {"IRONAUTH_SESSION_ABSOLUTE_S": "3600", "IRONAUTH_SESSION_IDLE_S": "3601"},
        "IRONAUTH_SESSION_IDLE_S",
    ),
    "no number": ({"IRONAUTH_ACCESS_TOKEN_S": "abc"}, "IRONAUTH_ACCESS_TOKEN_S"),
    "not finite": ({"IRONAUTH_HASH_MAX_WAIT_S": "nan"}, "IRONAUTH_HASH_MAX_WAIT_S"),
    "no thread": ({"IRONAUTH_HASH_THREADS": "0"}, "IRONAUTH_HASH_THREADS"),
    "unknown log level": ({"IRONAUTH_LOG_LEVEL": "FOO"}, "IRONAUTH_LOG_LEVEL"),
    "unknown log format": ({"IRONAUTH_LOG_FORMAT": "foo"}, "IRONAUTH_LOG_FORMAT"),
    "unreadable database URL": ({"DATABASE_URL": "postgres://u:hush#hush@h/db"}, "DATABASE_URL"),
    "unreadable Redis URL": ({"REDIS_URL": "redis://:hush#hush@h/0"}, "REDIS_URL"),
}
ONE_OF_EACH = ("no number", "not a boolean", "unreadable database URL", "endless session", "unknown log level")


def start(command: list[str], overrides: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run Python with ``command``, the suite's environment and ``overrides`` until it ends."""
    environment = {**os.environ, **ENVIRONMENT, **overrides, "DJANGO_SETTINGS_MODULE": "ironauth.settings"}
    return subprocess.run(
        [sys.executable, *command],
        cwd=settings.BASE_DIR,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def one_line(result: subprocess.CompletedProcess[str]) -> str:
    """Return the only line of a start that was refused."""
    lines = (result.stdout + result.stderr).splitlines()
    assert result.returncode == 1, lines
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_a_bad_setting_stops_the_start(case: str) -> None:
    """The server does not start, and its only line names the setting, without a secret's value."""
    overrides, name = BAD_SETTINGS[case]
    arguments = overrides.get("IRONAUTH_TEST_ARGUMENTS", "").split()
    line = one_line(start(["manage.py", "serve", "--port", "0", *arguments], overrides))
    assert name in line
    assert "hush" not in line


@pytest.mark.parametrize("case", ONE_OF_EACH)
def test_other_commands_say_the_same(case: str) -> None:
    """``migrate`` and ``check`` refuse it with the same line."""
    overrides, name = BAD_SETTINGS[case]
    for command in (["migrate", "--check"], ["check"]):
        line = one_line(start(["manage.py", *command], overrides))
        assert line.startswith(f"Configuration: {name} "), line


@pytest.mark.parametrize("case", ONE_OF_EACH)
def test_importing_the_application_says_the_same(case: str) -> None:
    """Another server that imports ``ironauth.asgi`` gets one error of one line, without a cause that has the value."""
    overrides, name = BAD_SETTINGS[case]
    result = start(["-c", "import ironauth.asgi"], overrides)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith(f"django.core.exceptions.ImproperlyConfigured: {name} ")
    assert "another exception" not in result.stderr
    assert "hush" not in result.stderr


def test_an_environment_file_that_others_may_read_stops_the_start(tmp_path: Path) -> None:
    """The file with the keys has to be private (security bar 35); the line has the command that mends it."""
    file = tmp_path / "env"
    file.write_text("IRONAUTH_LOG_LEVEL=INFO\n")
    file.chmod(0o640)
    line = one_line(start(["manage.py", "serve", "--port", "0"], {"IRONAUTH_ENV_FILE": str(file)}))
    assert line.endswith(f"chmod 600 {file}")


def test_a_private_environment_file_is_read(tmp_path: Path) -> None:
    """With mode 0600 its values count: a bad one is found."""
    file = tmp_path / "env"
    file.write_text("IRONAUTH_JWKS_MAX_AGE_S=-1\n")
    file.chmod(0o600)
    line = one_line(start(["manage.py", "serve", "--port", "0"], {"IRONAUTH_ENV_FILE": str(file)}))
    assert line.startswith("Configuration: IRONAUTH_JWKS_MAX_AGE_S must be")


SHOWN = "import ironauth.settings as s; print(s.DEBUG, s.IRONAUTH_COOKIE_SECURE, s.IRONAUTH_ISSUER, s.ALLOWED_HOSTS)"


def test_a_production_environment_is_accepted() -> None:
    """Public names with TLS start, with Secure cookies by default."""
    public = {"ALLOWED_HOSTS": "id.example.com", "IRONAUTH_ISSUER": "https://id.example.com"}
    result = start(["-c", SHOWN], {**public, "IRONAUTH_COOKIE_SECURE": "1"})
    assert result.stdout == "False True https://id.example.com ['id.example.com']\n", result.stderr


def test_a_first_run_is_accepted() -> None:
    """What ``make run`` writes (two secrets and DEBUG=1) is enough, and stays on this machine."""
    environment = {"PATH": os.environ["PATH"], "IRONAUTH_ENV_FILE": os.devnull, "DEBUG": "1"}
    environment |= {name: ENVIRONMENT[name] for name in ("SECRET_KEY", "IRONAUTH_MASTER_KEYS")}
    result = subprocess.run(
        [sys.executable, "-c", SHOWN],
        cwd=settings.BASE_DIR, env=environment, check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert result.stdout == "True False http://localhost:8000 ['localhost', '127.0.0.1', '[::1]']\n", result.stderr


def test_a_shorter_session_is_idle_for_less() -> None:
    """Only the absolute limit set below 14 days: the idle one follows instead of being refused."""
    code = "import ironauth.settings as s; print(s.IRONAUTH_SESSION_IDLE_S)"
    assert start(["-c", code], {"IRONAUTH_SESSION_ABSOLUTE_S": "3600"}).stdout == "3600\n"
