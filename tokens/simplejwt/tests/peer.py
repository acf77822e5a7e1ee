"""djangorestframework-simplejwt itself, in a project of its own: answers the requests on standard input.

A process of its own, because Django's settings are one for a process. Each line of input is a list of steps; a step
is the path below ``/api/token/`` and the body, where ``$refresh`` and ``$access`` stand for the newest tokens. Each
line of output is the list of their answers: status, body, and the access token's claims where there is one.
"""

import base64
import json
import secrets
import sys
from typing import Any

import django
from django.conf import settings
from django.core.management import call_command
from django.test import Client
from django.urls import path

PEOPLE = {"mia": True, "tom": False}  # name -> active
PASSWORD = "violet otter rides 9 trams"


def configure(*, rotates: bool) -> None:
    """Set up Django with SimpleJWT as its documentation does, and two people."""
    settings.configure(
        SECRET_KEY=secrets.token_urlsafe(48),
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        INSTALLED_APPS=[
            "django.contrib.auth", "django.contrib.contenttypes", "rest_framework",
            "rest_framework_simplejwt.token_blacklist",
        ],
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        ROOT_URLCONF=__name__,
        ALLOWED_HOSTS=["testserver"],
        USE_TZ=True,
        LOGGING_CONFIG=None,
        SIMPLE_JWT={"ROTATE_REFRESH_TOKENS": rotates, "BLACKLIST_AFTER_ROTATION": rotates},
    )  # fmt: skip
    django.setup()
    call_command("migrate", verbosity=0)
    from django.contrib.auth import get_user_model  # noqa: PLC0415 - models are there after the setup
    from rest_framework_simplejwt import views  # noqa: PLC0415 - so are these

    people: Any = get_user_model()  # Django's own there
    for name, active in PEOPLE.items():
        people.objects.create_user(username=name, password=PASSWORD, is_active=active)
    globals()["urlpatterns"] = [
        path("api/token/", views.TokenObtainPairView.as_view()),
        path("api/token/refresh/", views.TokenRefreshView.as_view()),
        path("api/token/verify/", views.TokenVerifyView.as_view()),
        path("api/token/blacklist/", views.TokenBlacklistView.as_view()),
    ]


def claims_of(token: str) -> dict[str, Any]:
    """Return the claims of a token, unverified."""
    payload = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return claims


def main() -> None:
    """Answer what is asked until there is nothing more."""
    configure(rotates=sys.argv[1] == "rotate")
    for line in sys.stdin:
        browser, known, answers = Client(raise_request_exception=False), dict[str, str](), list[Any]()
        for where, body in json.loads(line):
            filled = {name: known.get(value, value) for name, value in body.items()} if isinstance(body, dict) else body
            response = browser.post(f"/api/token/{where}", filled, content_type="application/json")
            answer = response.json()
            known |= {f"${name}": answer[name] for name in ("access", "refresh") if name in answer}
            if where == "" and "refresh" in answer:
                known["$first"] = answer["refresh"]
            answers.append([response.status_code, answer, claims_of(answer["access"]) if "access" in answer else None])
        sys.stdout.write(json.dumps(answers) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
