"""Settings, read from the environment (and ``var/env`` beside the code, when there is one).

Safe by default: a missing or insecure value stops start-up and names itself and its remedy.
Every variable is an entry of ``ironauth.config.table``, from which ``deploy/env.example`` is written.
"""

import os
from pathlib import Path
from typing import Any

from django.utils.csp import CSP

from ironauth.config import cookies as cookie_names
from ironauth.config.checks import postgres_options, sqlite_options
from ironauth.config.declared import *  # noqa: F403 - types of what is read from the table below
from ironauth.config.environment import Environment, load_environment_file
from ironauth.config.openapi import SPECTACULAR_SETTINGS  # noqa: F401 - a setting, read by drf-spectacular
from ironauth.config.table import LIMITS, SETTINGS
from ironauth.config.table.setting import SettingValues

PACKAGE = Path(__file__).resolve().parent
# What is written is in var/ beside the code, or in that of a project which is built on this product.
BASE_DIR = Path(os.environ.get("IRONAUTH_PROJECT") or PACKAGE.parent)
names_in_file = load_environment_file(Path(os.environ.get("IRONAUTH_ENV_FILE") or BASE_DIR / "var" / "env"))
env = Environment(os.environ, LIMITS)

# Every setting of ironauth.config.table, by its name. What follows is derived from them, or Django's own.
given = SettingValues(env, SETTINGS.values(), {"BASE_DIR": BASE_DIR})
globals().update(given.exported())
env.refuse_misspelt(of_ours=names_in_file)

# ---------------------------------------------------------------- passwords
AUTH_USER_MODEL = "accounts.User"
PASSWORD_HASHERS = [
    # Reads the hashes of Django's own Argon2PasswordHasher too: listing both would let Django pick the unpooled one.
    "accounts.passwords.formats.argon2.IronArgon2Hasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2SHA1PasswordHasher",
    "django.contrib.auth.hashers.BCryptSHA256PasswordHasher",
    "django.contrib.auth.hashers.ScryptPasswordHasher",
    # Hashes of other systems, for people who were moved in.
    "accounts.passwords.formats.bcrypt.BcryptHasher",
    "accounts.passwords.formats.pbkdf2.Pbkdf2Hasher",
    "accounts.passwords.formats.scrypt.ScryptPhcHasher",
    "accounts.passwords.formats.firebase.FirebaseScryptHasher",
    "accounts.passwords.formats.salted_sha.SaltedShaHasher",
]
AUTH_PASSWORD_VALIDATORS = [{"NAME": "accounts.passwords.policy.PasswordPolicyValidator"}]

# ---------------------------------------------------------------- mail
MAILERS: dict[str, dict[str, Any]] = {"default": given["EMAIL_URL"]}

# ---------------------------------------------------------------- storage
DATABASES: dict[str, dict[str, Any]] = {"default": given["DATABASE_URL"]}
# Health checks are for the admin lane's connections; the database pool repeats what a broken one did not finish.
DATABASES["default"].update(CONN_MAX_AGE=None, CONN_HEALTH_CHECKS=True, ATOMIC_REQUESTS=False)
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["OPTIONS"] = sqlite_options(given["IRONAUTH_DATABASE_TIMEOUT_S"])
else:
    DATABASES["default"]["OPTIONS"] = postgres_options(DATABASES["default"].get("OPTIONS", {}))
IRONAUTH_REPLICA: dict[str, Any] | None = given["IRONAUTH_REPLICA_URL"]
if IRONAUTH_REPLICA is not None:
    IRONAUTH_REPLICA |= {"CONN_MAX_AGE": None, "OPTIONS": postgres_options(IRONAUTH_REPLICA.get("OPTIONS", {}))}

_REDIS_CACHE = "ironauth.infrastructure.cache.plain_values.PlainRedisCache"
CACHES: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "cachalot": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"},
}
if given["REDIS_URL"]:
    CACHES["default"] = {"BACKEND": _REDIS_CACHE, "LOCATION": given["REDIS_URL"], "KEY_PREFIX": "ironauth"}
    CACHES["cachalot"] = {**CACHES["default"], "KEY_PREFIX": "ironauth-cachalot"}
# Never users, sessions, keys or anything an authentication decision depends on: invalidation can stop silently
# (django-cachalot#269). Without Redis it is off: in-process copies do not see other processes' writes (#46).
# Nothing here writes these tables by raw SQL; looking for it costs a regular expression for every statement.
CACHALOT_INVALIDATE_RAW = False
CACHALOT_CACHE = "cachalot"
CACHALOT_QUERY_KEYGEN = "ironauth.infrastructure.cache.query_cache.query_key"  # the admin lane's queries only
CACHALOT_ONLY_CACHABLE_TABLES = ("auth_group", "auth_permission", "auth_group_permissions", "django_content_type")

# ---------------------------------------------------------------- Django
INSTALLED_APPS = [
    "ironauth.infrastructure",
    "accounts",
    "tokens",
    "ironauth",
    "accounts.admin.app.StaffAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "adrf",
    "drf_spectacular",
    "drf_spectacular_sidecar",
]
if given["REDIS_URL"]:  # merely installed, it costs every query a few microseconds
    INSTALLED_APPS.append("cachalot")
ROOT_URLCONF = "ironauth.urls"
ASGI_APPLICATION = "ironauth.asgi.application"
API_MIDDLEWARE = ["ironauth.infrastructure.http.middleware.RequestContextMiddleware"]  # short, and natively async
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": given["IRONAUTH_TEMPLATES"],
        "APP_DIRS": True,
        "OPTIONS": {
            "libraries": {"brand": "ironauth.infrastructure.http.brand"},
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.csp",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
STATIC_URL = "/static/"
STATICFILES_DIRS = given["IRONAUTH_BRAND_FILES"]
# No STATIC_ROOT: the packages' own files are served from where they are installed, without a collectstatic step.
WHITENOISE_USE_FINDERS = True
LANGUAGE_CODE = "en"  # of the API and of staff; pages choose (ironauth.infrastructure.http.language)
LANGUAGES = [("en", "English"), ("de", "Deutsch"), ("fr", "Français"), ("es", "Español")]
LOCALE_PATHS = [PACKAGE / "locale"]
FORMAT_MODULE_PATH = "ironauth.formats"  # dates as they sort, everywhere
TIME_ZONE = "UTC"

# ---------------------------------------------------------------- security of the admin lane
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = given["IRONAUTH_COOKIE_SECURE"]
SESSION_ENGINE = "ironauth.infrastructure.admin.session_store"
SESSION_COOKIE_AGE = 8 * 3600  # seconds; a staff working day
SESSION_COOKIE_NAME = cookie_names.name_of(cookie_names.ADMIN_SESSION, secure=SESSION_COOKIE_SECURE)
CSRF_COOKIE_NAME = cookie_names.name_of(cookie_names.ADMIN_CSRF, secure=SESSION_COOKIE_SECURE)
CSRF_COOKIE_HTTPONLY = True
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"  # no cookie of its own
CSRF_TRUSTED_ORIGINS = given["IRONAUTH_TRUSTED_ORIGINS"]
SECURE_HSTS_SECONDS = 31_536_000 if SESSION_COOKIE_SECURE else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS, SECURE_HSTS_PRELOAD = given["IRONAUTH_HSTS"]
# No SECURE_PROXY_SSL_HEADER: it believes any peer. infrastructure.http.lanes takes the scheme from configured proxies
# only.
SILENCED_SYSTEM_CHECKS = [
    "security.W008", "security.W005", "security.W021",  # proxies redirect; HSTS: IRONAUTH_HSTS
    "cachalot.W001",  # our own cache behind the queries is django-redis's, with another serializer
]  # fmt: skip
X_FRAME_OPTIONS = "DENY"

# ---------------------------------------------------------------- API
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["tokens.sessions.authentication.AccessTokenAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["ironauth.infrastructure.api.renderers.MsgspecRenderer"],
    "DEFAULT_PARSER_CLASSES": ["ironauth.infrastructure.api.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "ironauth.infrastructure.api.openapi.Schema",
    "EXCEPTION_HANDLER": "ironauth.infrastructure.api.problem.exception_handler",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}

# ---------------------------------------------------------------- logs
LOGGING_CONFIG = "ironauth.infrastructure.telemetry.logs.configure"
LOGGING = {"level": given["IRONAUTH_LOG_LEVEL"], "format": given["IRONAUTH_LOG_FORMAT"]}

# What a request in the admin lane passes through. Its pages load no inline script, and nothing from elsewhere.
MIDDLEWARE = [
    "ironauth.infrastructure.http.middleware.RequestContextMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.csp.ContentSecurityPolicyMiddleware",
    "ironauth.infrastructure.http.error_pages.CookieMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "ironauth.infrastructure.http.error_pages.BusyPageMiddleware",
]

SECURE_CSP = {
    "default-src": [CSP.NONE],
    "script-src": [CSP.SELF],
    "style-src": [CSP.SELF],
    "img-src": [CSP.SELF, "data:"],
    "font-src": [CSP.SELF],
    "connect-src": [CSP.SELF],
    "form-action": [CSP.SELF],
    "base-uri": [CSP.NONE],
    "frame-ancestors": [CSP.NONE],
}
