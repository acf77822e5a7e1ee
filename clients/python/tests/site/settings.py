"""A small Django site beside the server; the environment says which server, and where its database is."""

import os

from ironauth_client.testing import FakeIssuer

FAKE = FakeIssuer()
SECRET_KEY = "of a site that lives for a test"
ALLOWED_HOSTS = ["*"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("SITE_DATABASE", ":memory:")}}
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "rest_framework",
    "ironauth_client.django",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "ironauth_client.django.middleware.OpenSessionMiddleware",
]
AUTHENTICATION_BACKENDS = ["ironauth_client.django.backends.IronAuthBackend"]
ROOT_URLCONF = "tests.site.urls"
LOGIN_REDIRECT_URL = "/who"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
USE_TZ = True
IRONAUTH_CLIENT = {
    "ISSUER": os.environ.get("SITE_ISSUER", FAKE.issuer),
    "CLIENT_ID": os.environ.get("SITE_CLIENT_ID", FAKE.client_id),
    "CLIENT_SECRET": os.environ.get("SITE_CLIENT_SECRET", "secret"),
    "TRANSPORT": None if "SITE_ISSUER" in os.environ else FAKE.transport,
}
