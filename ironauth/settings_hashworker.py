"""Settings of ``manage.py hashworker``: how many hashes at once, and logs. No secret, no database, no address.

They come from the real environment alone: a file with a server's secrets has no place on a worker's machine.
"""

import os

from ironauth.config.environment import Environment
from ironauth.config.table import LIMITS, SETTINGS
from ironauth.config.table.setting import SettingValues

NAMES = (
    "IRONAUTH_HASH_THREADS",
    "IRONAUTH_HASH_MAX_WAIT_S",
    "IRONAUTH_HASH_NICE",
    "IRONAUTH_LOG_LEVEL",
    "IRONAUTH_LOG_FORMAT",
)
env = Environment(os.environ, LIMITS)
given = SettingValues(env, [SETTINGS[name] for name in NAMES], {"DEBUG": False})
globals().update(given.exported())
LOGGING_CONFIG = "ironauth.infrastructure.telemetry.logs.configure"
LOGGING = {"level": given["IRONAUTH_LOG_LEVEL"], "format": given["IRONAUTH_LOG_FORMAT"]}
env.refuse_misspelt()
INSTALLED_APPS = ["ironauth"]  # for its commands alone
