"""A Django site in memory, for the libraries that are applications of Django."""

from collections.abc import Sequence
from typing import Any

import django
from conversation import visit
from django.conf import settings
from django.core.management import call_command
from django.test import Client

SITE = "app.example.com"


def begin(applications: list[str], backend: str, middleware: Sequence[str] = (), **more: Any) -> None:
    """Set the site up, its database in memory."""
    settings.configure(
        SECRET_KEY="of a test",
        ALLOWED_HOSTS=[SITE],
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", *applications],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            *middleware,
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {"context_processors": ["django.template.context_processors.request"]},
            }
        ],
        AUTHENTICATION_BACKENDS=[backend],
        ROOT_URLCONF="__main__",  # the program, with its urlpatterns
        **more,
    )
    django.setup()
    call_command("migrate", verbosity=0)


def signed_in(start: str, *, by_form: bool = False) -> str:
    """Sign in from an address of the site; return the email address of who is signed in there then."""
    browser = Client(headers={"host": SITE})
    sent = (browser.post if by_form else browser.get)(start, secure=True)
    back = visit(sent["location"])
    browser.get(back.removeprefix(f"https://{SITE}"), secure=True)
    return who(browser)


def who(browser: Client) -> str:
    """Return the email address of who is signed in with a browser."""
    from django.contrib.auth import get_user

    request = type("Request", (), {"session": browser.session})()
    user = get_user(request)
    return str(user.email) if user.is_authenticated else "nobody"
