"""Settings of ``manage.py hashworker``: how many hashes at once, and logs. No secret, no database, no address.

They come from the real environment alone: the file with a server's secrets has no place on a worker's machine.
"""

import os

from ironauth.config.checks import default_hash_threads
from ironauth.config.environment import Environment
from ironauth.config.limits import LIMITS

env = Environment(os.environ, LIMITS)

IRONAUTH_HASH_THREADS = env.whole("IRONAUTH_HASH_THREADS", default=default_hash_threads())
IRONAUTH_HASH_MAX_WAIT_S = env.number("IRONAUTH_HASH_MAX_WAIT_S", default=4.0)
IRONAUTH_HASH_NICE = env.whole("IRONAUTH_HASH_NICE", default=19)
IRONAUTH_LOG_LEVEL = env.choice(
    "IRONAUTH_LOG_LEVEL", choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"), default="INFO"
)
IRONAUTH_LOG_FORMAT = env.choice("IRONAUTH_LOG_FORMAT", choices=("json", "console"), default="json")
LOGGING_CONFIG = "ironauth.infrastructure.telemetry.logs.configure"
LOGGING = {"level": IRONAUTH_LOG_LEVEL, "format": IRONAUTH_LOG_FORMAT}
env.refuse_misspelt()
INSTALLED_APPS = ["ironauth"]  # for its commands alone
