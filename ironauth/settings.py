"""Settings, read from the environment (and ``var/env`` beside the code, when there is one).

Safe by default: a missing or insecure value stops start-up and names itself and its remedy.
Every variable is listed with its unit and default in ``deploy/env.example``; a test keeps that list complete.
"""

import os
from pathlib import Path
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured
from django.utils.csp import CSP

from ironauth.infrastructure.configuration import (
    default_database_threads,
    default_hash_threads,
    key_ring,
    refuse_weak_argon2,
    required_secret,
    sqlite_options,
)
from ironauth.openapi_settings import SPECTACULAR_SETTINGS  # noqa: F401 - a setting, read by drf-spectacular

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.Env()
ENV_FILE = Path(os.environ.get("IRONAUTH_ENV_FILE", BASE_DIR / "var" / "env"))
if ENV_FILE.is_file():
    env.read_env(ENV_FILE)

# ---------------------------------------------------------------- process
DEBUG = env.bool("DEBUG", default=False)
SECRET_KEY = required_secret(env.str("SECRET_KEY", default=""), "SECRET_KEY")
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"] if DEBUG else [])
if not ALLOWED_HOSTS:
    raise ImproperlyConfigured(
        "ALLOWED_HOSTS is empty: set it to the host names this server answers to, e.g. ALLOWED_HOSTS=id.example.com"
    )
if "*" in ALLOWED_HOSTS and not DEBUG:
    raise ImproperlyConfigured(
        "ALLOWED_HOSTS=* trusts any Host header: name the hosts this server answers to, e.g. id.example.com"
    )

# ---------------------------------------------------------------- tokens and sessions
IRONAUTH_ISSUER = env.str("IRONAUTH_ISSUER", default="http://127.0.0.1:8000" if DEBUG else "")
if not IRONAUTH_ISSUER:
    raise ImproperlyConfigured(
        "IRONAUTH_ISSUER is missing: set it to the public https:// origin of this server, e.g. https://id.example.com"
    )
if urlsplit(IRONAUTH_ISSUER).scheme != "https" and urlsplit(IRONAUTH_ISSUER).hostname not in (
    "localhost",
    "127.0.0.1",
    "::1",
):
    raise ImproperlyConfigured("IRONAUTH_ISSUER must be an https:// origin (RFC 8414 §2); http is for loopback only")
IRONAUTH_AUDIENCE = env.str("IRONAUTH_AUDIENCE", default=IRONAUTH_ISSUER)
IRONAUTH_JWT_ALG = env.str("IRONAUTH_JWT_ALG", default="EdDSA")
if IRONAUTH_JWT_ALG not in ("EdDSA", "Ed25519"):
    raise ImproperlyConfigured("IRONAUTH_JWT_ALG must be EdDSA (RFC 8037, widest support) or Ed25519 (RFC 9864)")
# Master keys, newest first; signing keys at rest and refresh tokens use keys derived from them.
IRONAUTH_MASTER_KEYS = key_ring(env.list("IRONAUTH_MASTER_KEYS", default=[]), "IRONAUTH_MASTER_KEYS", required=True)
IRONAUTH_ACCESS_TOKEN_S = env.int("IRONAUTH_ACCESS_TOKEN_S", default=600)
IRONAUTH_REFRESH_GRACE_S = env.int("IRONAUTH_REFRESH_GRACE_S", default=10)
IRONAUTH_SESSION_IDLE_S = env.int("IRONAUTH_SESSION_IDLE_S", default=14 * 86_400)
IRONAUTH_SESSION_ABSOLUTE_S = env.int("IRONAUTH_SESSION_ABSOLUTE_S", default=30 * 86_400)  # SP 800-63B-4 §2.1.3
IRONAUTH_JWKS_MAX_AGE_S = env.int("IRONAUTH_JWKS_MAX_AGE_S", default=300)
IRONAUTH_COOKIE_SECURE = env.bool("IRONAUTH_COOKIE_SECURE", default=not DEBUG)
IRONAUTH_TRUSTED_ORIGINS = env.list("IRONAUTH_TRUSTED_ORIGINS", default=[])
IRONAUTH_TRUSTED_PROXIES = env.list("IRONAUTH_TRUSTED_PROXIES", default=[])

# ---------------------------------------------------------------- passwords
AUTH_USER_MODEL = "accounts.User"
IRONAUTH_PASSWORD_MIN_LENGTH = env.int("IRONAUTH_PASSWORD_MIN_LENGTH", default=15)  # SP 800-63B-4 §3.1.1.2
if IRONAUTH_PASSWORD_MIN_LENGTH < 8:  # noqa: PLR2004 - ASVS 6.2.1, the floor with a second factor
    raise ImproperlyConfigured("IRONAUTH_PASSWORD_MIN_LENGTH must be at least 8 (ASVS 6.2.1); 15 is the default")
IRONAUTH_ARGON2_TIME_COST = env.int("IRONAUTH_ARGON2_TIME_COST", default=3)
IRONAUTH_ARGON2_MEMORY_KIB = env.int("IRONAUTH_ARGON2_MEMORY_KIB", default=65_536)  # 64 MiB, RFC 9106 §4
IRONAUTH_ARGON2_PARALLELISM = env.int("IRONAUTH_ARGON2_PARALLELISM", default=1)
refuse_weak_argon2(
    time_cost=IRONAUTH_ARGON2_TIME_COST,
    memory_kib=IRONAUTH_ARGON2_MEMORY_KIB,
    parallelism=IRONAUTH_ARGON2_PARALLELISM,
)
IRONAUTH_PASSWORD_PEPPERS = key_ring(
    env.list("IRONAUTH_PASSWORD_PEPPERS", default=[]), "IRONAUTH_PASSWORD_PEPPERS", required=False
)
PASSWORD_HASHERS = [
    # Reads the hashes of Django's own Argon2PasswordHasher too: listing both would let Django pick the unpooled one.
    "accounts.passwords.IronArgon2Hasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2SHA1PasswordHasher",
    "django.contrib.auth.hashers.BCryptSHA256PasswordHasher",
    "django.contrib.auth.hashers.ScryptPasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [{"NAME": "accounts.password_policy.PasswordPolicyValidator"}]

# ---------------------------------------------------------------- pools
IRONAUTH_HASH_THREADS = env.int("IRONAUTH_HASH_THREADS", default=default_hash_threads())
IRONAUTH_HASH_MAX_WAIT_S = env.float("IRONAUTH_HASH_MAX_WAIT_S", default=2.0)
IRONAUTH_DATABASE_THREADS = env.int("IRONAUTH_DATABASE_THREADS", default=default_database_threads())
IRONAUTH_DATABASE_TIMEOUT_S = env.float("IRONAUTH_DATABASE_TIMEOUT_S", default=2.0)

# ---------------------------------------------------------------- storage
DATABASES = {
    "default": env.db_url("DATABASE_URL", default=f"sqlite:///{BASE_DIR / 'var' / 'ironauth.sqlite3'}"),
}
DATABASES["default"].update(CONN_MAX_AGE=None, CONN_HEALTH_CHECKS=False, ATOMIC_REQUESTS=False)
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["OPTIONS"] = sqlite_options(IRONAUTH_DATABASE_TIMEOUT_S)
else:
    # libpq's own floor for connect_timeout is 2 s; the pool's own time limit is what a request sees. A server that
    # vanished without a word is noticed by the kernel after 5 s, so that its pool threads come back.
    DATABASES["default"]["OPTIONS"] = {
        "connect_timeout": 2,
        "tcp_user_timeout": 5_000,  # milliseconds
        "keepalives_idle": 5,
        "keepalives_interval": 1,
        "keepalives_count": 3,
        **DATABASES["default"].get("OPTIONS", {}),
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = env.str("REDIS_URL", default="")
IRONAUTH_L1_MAX_STALE_S = env.float("IRONAUTH_L1_MAX_STALE_S", default=5.0)
IRONAUTH_L1_MAX_ENTRIES = env.int("IRONAUTH_L1_MAX_ENTRIES", default=50_000)
CACHES = {
    "default": {
        "BACKEND": "ironauth.infrastructure.cache.TwoLevelCache",
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
CACHALOT_ONLY_CACHABLE_TABLES = ("auth_group", "auth_permission", "auth_group_permissions", "django_content_type")

# ---------------------------------------------------------------- Django
INSTALLED_APPS = [
    "ironauth.infrastructure",
    "accounts",
    "tokens",
    "ironauth",
    "django.contrib.admin",
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
# The admin lane; the API lane has its own short, natively async list.
MIDDLEWARE = [
    "ironauth.infrastructure.middleware.RequestContextMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.csp.ContentSecurityPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
API_MIDDLEWARE = ["ironauth.infrastructure.middleware.RequestContextMiddleware"]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
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
LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True
APPEND_SLASH = True

# ---------------------------------------------------------------- security of the admin lane
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = IRONAUTH_COOKIE_SECURE
SESSION_COOKIE_AGE = 8 * 3600  # seconds; a staff working day
SESSION_COOKIE_NAME = "__Host-admin_session" if IRONAUTH_COOKIE_SECURE else "admin_session"
CSRF_COOKIE_HTTPONLY = True
CSRF_TRUSTED_ORIGINS = IRONAUTH_TRUSTED_ORIGINS
SECURE_HSTS_SECONDS = 31_536_000 if IRONAUTH_COOKIE_SECURE else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = IRONAUTH_COOKIE_SECURE
# No SECURE_PROXY_SSL_HEADER: it believes any peer. infrastructure.lanes takes the scheme from configured proxies only.
SILENCED_SYSTEM_CHECKS = ["security.W008"]  # the proxy that ends TLS redirects to https; we never see plain http
SECURE_CSP = {  # Django's admin needs nothing else: no inline script or style, nothing from another host
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
X_FRAME_OPTIONS = "DENY"

# ---------------------------------------------------------------- API
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["tokens.authentication.AccessTokenAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["ironauth.infrastructure.renderers.MsgspecRenderer"],
    "DEFAULT_PARSER_CLASSES": ["ironauth.infrastructure.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "ironauth.infrastructure.openapi.Schema",
    "EXCEPTION_HANDLER": "ironauth.infrastructure.problem.exception_handler",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}

# ---------------------------------------------------------------- logs
IRONAUTH_LOG_LEVEL = env.str("IRONAUTH_LOG_LEVEL", default="INFO").upper()
IRONAUTH_LOG_FORMAT = env.str("IRONAUTH_LOG_FORMAT", default="console" if DEBUG else "json")
IRONAUTH_ACCESS_LOG = env.bool("IRONAUTH_ACCESS_LOG", default=True)
LOGGING_CONFIG = "ironauth.infrastructure.logs.configure"
LOGGING = {"level": IRONAUTH_LOG_LEVEL, "format": IRONAUTH_LOG_FORMAT}
