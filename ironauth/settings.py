"""Settings, read from the environment (and ``var/env`` beside the code, when there is one).

Safe by default: a missing or insecure value stops start-up and names itself and its remedy.
Every variable is listed with its unit and default in ``deploy/env.example``; a test keeps that list complete.
"""

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from ironauth.config import addresses
from ironauth.config import hash_workers as setting_hash_workers
from ironauth.config import mail as setting_mail
from ironauth.config import metrics as setting_metrics
from ironauth.config import webauthn as setting_webauthn
from ironauth.config.admin_policy import MIDDLEWARE, SECURE_CSP  # noqa: F401 - settings, read by Django
from ironauth.config.checks import (
    audience,
    default_database_threads,
    default_hash_threads,
    key_ring,
    postgres_options,
    refuse_exposed_shortcuts,
    refuse_idle_beyond_absolute,
    refuse_missing_laboratory,
    refuse_weak_argon2,
    required_secret,
    sqlite_options,
)
from ironauth.config.environment import Environment, load_environment_file
from ironauth.config.limits import LIMITS
from ironauth.config.openapi import SPECTACULAR_SETTINGS  # noqa: F401 - a setting, read by drf-spectacular
from ironauth.config.traces import are_traces_wanted
from ironauth.infrastructure.http.cookies import names as cookie_names

BASE_DIR = Path(__file__).resolve().parent.parent
names_in_file = load_environment_file(Path(os.environ.get("IRONAUTH_ENV_FILE") or BASE_DIR / "var" / "env"))
env = Environment(os.environ, LIMITS)

# ---------------------------------------------------------------- process
DEBUG = env.switch("DEBUG", default=False)
SECRET_KEY = required_secret(env.text("SECRET_KEY", default=""), "SECRET_KEY")
ALLOWED_HOSTS = addresses.hosts(
    env.words("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"] if DEBUG else []), "ALLOWED_HOSTS"
)

# ---------------------------------------------------------------- tokens and sessions
IRONAUTH_ISSUER = addresses.issuer(
    env.text("IRONAUTH_ISSUER", default="http://127.0.0.1:8000" if DEBUG else ""), "IRONAUTH_ISSUER"
)
IRONAUTH_AUDIENCE = audience(env.text("IRONAUTH_AUDIENCE", default=IRONAUTH_ISSUER), "IRONAUTH_AUDIENCE")
IRONAUTH_JWT_ALG = env.choice("IRONAUTH_JWT_ALG", choices=("EdDSA", "Ed25519"), default="EdDSA")  # RFC 8037, 9864
# Master keys, newest first; signing keys at rest and refresh tokens use keys derived from them.
IRONAUTH_MASTER_KEYS = key_ring(env.words("IRONAUTH_MASTER_KEYS"), "IRONAUTH_MASTER_KEYS", required=True)
IRONAUTH_ACCESS_TOKEN_S = env.whole("IRONAUTH_ACCESS_TOKEN_S", default=600)
IRONAUTH_REFRESH_GRACE_S = env.whole("IRONAUTH_REFRESH_GRACE_S", default=10)
IRONAUTH_SESSION_ABSOLUTE_S = env.whole("IRONAUTH_SESSION_ABSOLUTE_S", default=30 * 86_400)  # SP 800-63B-4 §2.1.3
IRONAUTH_SESSION_IDLE_S = env.whole("IRONAUTH_SESSION_IDLE_S", default=min(14 * 86_400, IRONAUTH_SESSION_ABSOLUTE_S))
refuse_idle_beyond_absolute(idle_s=IRONAUTH_SESSION_IDLE_S, absolute_s=IRONAUTH_SESSION_ABSOLUTE_S)
IRONAUTH_MAX_SESSIONS_PER_USER = env.whole("IRONAUTH_MAX_SESSIONS_PER_USER", default=100)
IRONAUTH_JWKS_MAX_AGE_S = env.whole("IRONAUTH_JWKS_MAX_AGE_S", default=300)
IRONAUTH_COOKIE_SECURE = env.switch("IRONAUTH_COOKIE_SECURE", default=not DEBUG)
refuse_exposed_shortcuts(
    debug=DEBUG, cookie_secure=IRONAUTH_COOKIE_SECURE, issuer=IRONAUTH_ISSUER, allowed_hosts=ALLOWED_HOSTS
)
IRONAUTH_TRUSTED_ORIGINS = addresses.origins(env.words("IRONAUTH_TRUSTED_ORIGINS"), "IRONAUTH_TRUSTED_ORIGINS")
IRONAUTH_TRUSTED_PROXIES = addresses.networks(env.words("IRONAUTH_TRUSTED_PROXIES"), "IRONAUTH_TRUSTED_PROXIES")
IRONAUTH_WEBAUTHN_RP_ID, IRONAUTH_WEBAUTHN_ORIGINS = setting_webauthn.relying_party(
    env.text("IRONAUTH_WEBAUTHN_RP_ID", default=""),
    env.words("IRONAUTH_WEBAUTHN_ORIGINS"),
    issuer=IRONAUTH_ISSUER,
    trusted=IRONAUTH_TRUSTED_ORIGINS,
)

# ---------------------------------------------------------------- OAuth
IRONAUTH_SSO_ABSOLUTE_S = env.whole("IRONAUTH_SSO_ABSOLUTE_S", default=7 * 86_400)
IRONAUTH_SSO_IDLE_S = env.whole("IRONAUTH_SSO_IDLE_S", default=min(86_400, IRONAUTH_SSO_ABSOLUTE_S))
refuse_idle_beyond_absolute(idle_s=IRONAUTH_SSO_IDLE_S, absolute_s=IRONAUTH_SSO_ABSOLUTE_S, of="IRONAUTH_SSO")
IRONAUTH_LOGOUT_NETWORKS = addresses.private_networks(
    env.words("IRONAUTH_LOGOUT_NETWORKS", default=["127.0.0.0/8", "::1"] if DEBUG else []), "IRONAUTH_LOGOUT_NETWORKS"
)
IRONAUTH_OAUTH_SITE_NAME = env.text("IRONAUTH_OAUTH_SITE_NAME", default=urlsplit(IRONAUTH_ISSUER).netloc)

# ---------------------------------------------------------------- passwords
AUTH_USER_MODEL = "accounts.User"
IRONAUTH_PASSWORD_MIN_LENGTH = env.whole("IRONAUTH_PASSWORD_MIN_LENGTH", default=15)  # SP 800-63B-4 §3.1.1.2
IRONAUTH_ARGON2_TIME_COST = env.whole("IRONAUTH_ARGON2_TIME_COST", default=3)
IRONAUTH_ARGON2_MEMORY_KIB = env.whole("IRONAUTH_ARGON2_MEMORY_KIB", default=65_536)  # 64 MiB, RFC 9106 §4
IRONAUTH_ARGON2_PARALLELISM = env.whole("IRONAUTH_ARGON2_PARALLELISM", default=1)
refuse_weak_argon2(
    time_cost=IRONAUTH_ARGON2_TIME_COST,
    memory_kib=IRONAUTH_ARGON2_MEMORY_KIB,
    parallelism=IRONAUTH_ARGON2_PARALLELISM,
)
IRONAUTH_PASSWORD_PEPPERS = key_ring(
    env.words("IRONAUTH_PASSWORD_PEPPERS"), "IRONAUTH_PASSWORD_PEPPERS", required=False
)
IRONAUTH_BREACHED_PASSWORDS = env.text("IRONAUTH_BREACHED_PASSWORDS", default="")
IRONAUTH_BREACHED_PASSWORDS_URL = addresses.range_service(
    env.text("IRONAUTH_BREACHED_PASSWORDS_URL", default=""), "IRONAUTH_BREACHED_PASSWORDS_URL"
)
IRONAUTH_BREACHED_PASSWORDS_TIMEOUT_S = env.number("IRONAUTH_BREACHED_PASSWORDS_TIMEOUT_S", default=1.0)
PASSWORD_HASHERS = [
    # Reads the hashes of Django's own Argon2PasswordHasher too: listing both would let Django pick the unpooled one.
    "accounts.passwords.hashing.IronArgon2Hasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2SHA1PasswordHasher",
    "django.contrib.auth.hashers.BCryptSHA256PasswordHasher",
    "django.contrib.auth.hashers.ScryptPasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [{"NAME": "accounts.passwords.policy.PasswordPolicyValidator"}]

# ---------------------------------------------------------------- second factors
IRONAUTH_STAFF_MFA = env.choice("IRONAUTH_STAFF_MFA", choices=("optional", "required"), default="optional")

# ---------------------------------------------------------------- throttles
IRONAUTH_THROTTLE = env.switch("IRONAUTH_THROTTLE", default=True)
IRONAUTH_THROTTLE_SIGNIN_FAILURES = env.whole("IRONAUTH_THROTTLE_SIGNIN_FAILURES", default=100)
# The load-test commands of the contract sign up without end, against a development server as it is.
IRONAUTH_THROTTLE_SIGNUPS = env.whole("IRONAUTH_THROTTLE_SIGNUPS", default=1_000_000 if DEBUG else 30)
IRONAUTH_THROTTLE_BAD_REFRESHES = env.whole("IRONAUTH_THROTTLE_BAD_REFRESHES", default=300)
IRONAUTH_THROTTLE_PASSKEYS = env.whole("IRONAUTH_THROTTLE_PASSKEYS", default=300)
IRONAUTH_THROTTLE_BAD_EMAIL_TOKENS = env.whole("IRONAUTH_THROTTLE_BAD_EMAIL_TOKENS", default=100)
IRONAUTH_THROTTLE_MAILS = env.whole("IRONAUTH_THROTTLE_MAILS", default=30)
IRONAUTH_THROTTLE_EXPORTS = env.whole("IRONAUTH_THROTTLE_EXPORTS", default=5)
IRONAUTH_THROTTLE_NEW_FACTORS = env.whole("IRONAUTH_THROTTLE_NEW_FACTORS", default=20)
IRONAUTH_THROTTLE_MAILS_TO_ONE = env.whole("IRONAUTH_THROTTLE_MAILS_TO_ONE", default=5)

# ---------------------------------------------------------------- mail
IRONAUTH_MAIL_TIMEOUT_S = env.number("IRONAUTH_MAIL_TIMEOUT_S", default=10.0)
MAILERS: dict[str, dict[str, Any]] = {
    "default": setting_mail.mailer(
        env.text("EMAIL_URL", default=setting_mail.CONSOLE if DEBUG else f"filemail://{quote(str(BASE_DIR))}/var/mail"),
        "EMAIL_URL",
        timeout_s=IRONAUTH_MAIL_TIMEOUT_S,
    )
}
IRONAUTH_MAIL_FROM = setting_mail.sender(
    env.text("IRONAUTH_MAIL_FROM", default=setting_mail.default_sender(IRONAUTH_ISSUER)), "IRONAUTH_MAIL_FROM"
)
IRONAUTH_MAIL_DELIVERY = env.choice("IRONAUTH_MAIL_DELIVERY", choices=("server", "worker"), default="server")
IRONAUTH_EMAIL_VERIFICATION = setting_mail.verification(env, MAILERS["default"], debug=DEBUG)
IRONAUTH_EMAIL_TOKEN_MIN = env.whole("IRONAUTH_EMAIL_TOKEN_MIN", default=30)
IRONAUTH_NEW_DEVICE_MAIL = env.switch("IRONAUTH_NEW_DEVICE_MAIL", default=setting_mail.names_server(MAILERS["default"]))
IRONAUTH_TEMPLATES = setting_mail.template_folders(env.text("IRONAUTH_TEMPLATES", default=""), "IRONAUTH_TEMPLATES")

# ---------------------------------------------------------------- audit and privacy
# A year, which PCI DSS 10.5.1 asks for, and five weeks in which a yearly review can still compare the last one's.
IRONAUTH_AUDIT_KEEP_DAYS = env.whole("IRONAUTH_AUDIT_KEEP_DAYS", default=400)
IRONAUTH_DELETION_GRACE_DAYS = env.whole("IRONAUTH_DELETION_GRACE_DAYS", default=7)

# ---------------------------------------------------------------- lanes
IRONAUTH_HOT_LANE = env.switch("IRONAUTH_HOT_LANE", default=True)
IRONAUTH_PERF_ENDPOINTS = env.switch("IRONAUTH_PERF_ENDPOINTS", default=False)
refuse_missing_laboratory(wanted=IRONAUTH_PERF_ENDPOINTS)

# ---------------------------------------------------------------- pools
IRONAUTH_HASH_THREADS = env.whole("IRONAUTH_HASH_THREADS", default=default_hash_threads())
# Twice what twenty people at once need on two cores: shorter, and a busy minute of the machine turns them away.
IRONAUTH_HASH_MAX_WAIT_S = env.number("IRONAUTH_HASH_MAX_WAIT_S", default=4.0)
IRONAUTH_HASH_NICE = env.whole("IRONAUTH_HASH_NICE", default=19)
IRONAUTH_HASH_WORKERS = setting_hash_workers.read(env, peppers=IRONAUTH_PASSWORD_PEPPERS)
IRONAUTH_DATABASE_THREADS = env.whole("IRONAUTH_DATABASE_THREADS", default=default_database_threads())
# With the 0.25 s a request may wait for the key set, a database that froze is reported within 2 s.
IRONAUTH_DATABASE_TIMEOUT_S = env.number("IRONAUTH_DATABASE_TIMEOUT_S", default=1.5)

# ---------------------------------------------------------------- storage
DATABASES: dict[str, dict[str, Any]] = {
    "default": addresses.database(
        env.text("DATABASE_URL", default=f"sqlite:///{quote(str(BASE_DIR / 'var' / 'ironauth.sqlite3'))}"),
        "DATABASE_URL",
    ),
}
# Health checks are for the admin lane's connections; the database pool repeats what a broken one did not finish.
DATABASES["default"].update(CONN_MAX_AGE=None, CONN_HEALTH_CHECKS=True, ATOMIC_REQUESTS=False)
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["OPTIONS"] = sqlite_options(IRONAUTH_DATABASE_TIMEOUT_S)
else:
    DATABASES["default"]["OPTIONS"] = postgres_options(DATABASES["default"].get("OPTIONS", {}))

REDIS_URL = addresses.redis(env.text("REDIS_URL", default=""), "REDIS_URL")
IRONAUTH_L1_MAX_STALE_S = env.number("IRONAUTH_L1_MAX_STALE_S", default=5.0)
IRONAUTH_L1_MAX_ENTRIES = env.whole("IRONAUTH_L1_MAX_ENTRIES", default=50_000)
CACHES: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "ironauth.infrastructure.cache.two_level.TwoLevelCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "ironauth",
    },
    "cachalot": (
        {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": REDIS_URL,
            "KEY_PREFIX": "ironauth-cachalot",
            "OPTIONS": {"IGNORE_EXCEPTIONS": True, "SOCKET_CONNECT_TIMEOUT": 0.25, "SOCKET_TIMEOUT": 0.25},
        }
        if REDIS_URL
        else {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}
    ),
}
# Never users, sessions, keys or anything an authentication decision depends on: invalidation can stop silently
# (django-cachalot#269). Without Redis it is off: in-process copies do not see other processes' writes (#46).
# Nothing here writes these tables by raw SQL; looking for it costs a regular expression for every statement.
CACHALOT_INVALIDATE_RAW = False
CACHALOT_CACHE = "cachalot"
CACHALOT_QUERY_KEYGEN = "ironauth.infrastructure.cache.query_cache_key.query_key"  # the admin lane's queries only
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
if REDIS_URL:  # merely installed, it costs every query a few microseconds
    INSTALLED_APPS.append("cachalot")
ROOT_URLCONF = "ironauth.urls"
ASGI_APPLICATION = "ironauth.asgi.application"
API_MIDDLEWARE = ["ironauth.infrastructure.http.middleware.RequestContextMiddleware"]  # short, and natively async
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": IRONAUTH_TEMPLATES,
        "APP_DIRS": True,
        "OPTIONS": {
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
# No STATIC_ROOT: the packages' own files are served from where they are installed, without a collectstatic step.
WHITENOISE_USE_FINDERS = True
FORMAT_MODULE_PATH = "ironauth.formats"  # dates as they sort, everywhere
TIME_ZONE = "UTC"

# ---------------------------------------------------------------- security of the admin lane
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = IRONAUTH_COOKIE_SECURE
SESSION_ENGINE = "ironauth.infrastructure.admin.session_store"
SESSION_COOKIE_AGE = 8 * 3600  # seconds; a staff working day
SESSION_COOKIE_NAME = cookie_names.name_of(cookie_names.ADMIN_SESSION, secure=IRONAUTH_COOKIE_SECURE)
CSRF_COOKIE_NAME = cookie_names.name_of(cookie_names.ADMIN_CSRF, secure=IRONAUTH_COOKIE_SECURE)
CSRF_COOKIE_HTTPONLY = True
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"  # no cookie of its own
CSRF_TRUSTED_ORIGINS = IRONAUTH_TRUSTED_ORIGINS
SECURE_HSTS_SECONDS = 31_536_000 if IRONAUTH_COOKIE_SECURE else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS, SECURE_HSTS_PRELOAD = addresses.hsts_reach(env)
# No SECURE_PROXY_SSL_HEADER: it believes any peer. infrastructure.http.lanes takes the scheme from configured proxies
# only.
SILENCED_SYSTEM_CHECKS = ["security.W008", "security.W005", "security.W021"]  # proxies redirect; HSTS: IRONAUTH_HSTS
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

# ---------------------------------------------------------------- logs, metrics, traces
IRONAUTH_LOG_LEVEL = env.choice(
    "IRONAUTH_LOG_LEVEL", choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"), default="INFO"
)
IRONAUTH_LOG_FORMAT = env.choice(
    "IRONAUTH_LOG_FORMAT", choices=("json", "console"), default="console" if DEBUG else "json"
)
IRONAUTH_ACCESS_LOG = env.switch("IRONAUTH_ACCESS_LOG", default=True)
LOGGING_CONFIG = "ironauth.infrastructure.telemetry.logs.configure"
LOGGING = {"level": IRONAUTH_LOG_LEVEL, "format": IRONAUTH_LOG_FORMAT}
IRONAUTH_METRICS = env.switch("IRONAUTH_METRICS", default=False)
IRONAUTH_METRICS_TOKEN = setting_metrics.token(env.text("IRONAUTH_METRICS_TOKEN", default=""), on=IRONAUTH_METRICS)
IRONAUTH_TRACES = are_traces_wanted(env)
env.refuse_misspelt(of_ours=names_in_file)
