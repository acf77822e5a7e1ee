"""A missing or insecure setting stops start-up and names itself and its remedy (ASVS 13.2.3)."""

import os
import subprocess
import sys

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
}


def serve(overrides: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run ``manage.py serve`` with the suite's environment and ``overrides`` until it ends."""
    environment = {**os.environ, **ENVIRONMENT, **overrides}
    arguments = environment.pop("IRONAUTH_TEST_ARGUMENTS", "").split()
    environment["DJANGO_SETTINGS_MODULE"] = "ironauth.settings"
    command = [sys.executable, "manage.py", "serve", "--port", "0", *arguments]
    return subprocess.run(
        command, cwd=settings.BASE_DIR, env=environment, check=False, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_a_bad_setting_stops_the_start(case: str) -> None:
    """The server does not start, exits non-zero, and names the setting."""
    overrides, name = BAD_SETTINGS[case]
    result = serve(overrides)
    assert result.returncode != 0
    assert name in result.stderr + result.stdout
