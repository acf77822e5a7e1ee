"""A site that keeps its users: who they are at the server, and what its API says to a front end.

``test_django.py`` runs it as it runs ``walk.py``.
"""

import io
import json
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.test import Client
from django.test.utils import override_settings
from django.utils import timezone
from ironauth_client.django import checks
from ironauth_client.django.models import Identity, OpenSession

from tests.site.settings import FAKE, IRONAUTH_CLIENT

pytestmark = pytest.mark.django_db
User: Any = get_user_model()


@pytest.fixture
def users() -> list[Any]:
    return [User.objects.create_user(name) for name in ("ann", "ben", "cid")]


def person(subject: str, key: object, source: str = "django") -> dict[str, Any]:
    return {"external_id": subject, "email": "x@example.com", "imported": {"source": source, "external_id": str(key)}}


def adopt(folder: Path, *people: object, **options: Any) -> str:
    """Run the command with a file of these people; return what it says."""
    file, said = folder / "people.jsonl", io.StringIO()
    file.write_text("".join(f"{json.dumps(one)}\n" for one in people))
    call_command("adopt_users", str(file), stdout=said, **options)
    return said.getvalue()


def test_users_are_adopted_once_and_the_others_are_named(users: list[Any], tmp_path: Path) -> None:
    """A second file adds the rest; who came from elsewhere, or has no user here, is nobody."""
    ann, ben, cid = (user.pk for user in users)
    first = [person("a", ann), person("b", ben)]
    said = adopt(tmp_path, *first)
    assert said.splitlines() == [
        "2 users adopted, 0 known before",
        f"1 users here are nobody at {FAKE.issuer}: not moved in, or not in this file ({cid})",
    ]
    assert Client().get("/mine", headers=bearer(sub="a")).json() == {"sub": ann}
    strangers = [person("s", cid, "keycloak"), {"external_id": "new"}, person("t", cid + 99), person("u", "x")]
    assert adopt(tmp_path, *first, *strangers).splitlines()[:2] == [
        "0 users adopted, 2 known before",
        "4 people in the file have no user here",
    ]
    assert adopt(tmp_path, *first, person("c", cid)) == "1 users adopted, 2 known before\n"
    assert adopt(tmp_path, person("k", cid, "jsonl"), source="jsonl").startswith("1 users adopted")


def test_who_signed_in_too_early_is_told_and_replaced_on_demand(users: list[Any], tmp_path: Path) -> None:
    """Without the option no user changes, the others are adopted, and the command fails."""
    ann, ben, _ = users
    assert Client().get("/mine", headers=bearer(sub="a")).status_code == 200
    early = Identity.objects.get()
    other = early.user.pk
    told = rf"(?s)1 people are another user here.*\na is user {other}, imported as {ann.pk}"
    OpenSession.objects.create(identity=early, sid="s", created_at=timezone.now())
    with pytest.raises(CommandError, match=told):
        adopt(tmp_path, person("a", ann.pk), person("b", ben.pk))
    assert dict(Identity.objects.values_list("subject", "user")) == {"a": other, "b": ben.pk}
    assert OpenSession.objects.exists()
    said = adopt(tmp_path, person("a", ann.pk), person("b", ben.pk), replace=True)
    assert "1 people who were another user here are the one they were imported as" in said
    assert Client().get("/mine", headers=bearer(sub="a")).json() == {"sub": ann.pk}
    assert User.objects.filter(pk=other).exists()
    assert not OpenSession.objects.exists()


@pytest.mark.parametrize("line", ["people", "[]", '{"email": "x"}', '{"external_id": "a", "imported": 7}', "7"])
def test_a_file_of_something_else_changes_nothing(users: list[Any], tmp_path: Path, line: str) -> None:
    """The line is named; people of earlier lines are not adopted either. A file that is not there is an error too."""
    file = tmp_path / "people.jsonl"
    file.write_text(f"{json.dumps(person('a', users[0].pk))}\n{line}\n")
    with pytest.raises(CommandError, match="Line 2 is none"):
        call_command("adopt_users", str(file))
    assert not Identity.objects.exists()
    with pytest.raises(CommandError, match="No such file"):
        call_command("adopt_users", str(tmp_path / "missing"))


def bearer(**claims: Any) -> dict[str, str]:
    return {"Authorization": f"Bearer {FAKE.access_token(**claims)}"}


@pytest.mark.parametrize(
    ("headers", "detail"),
    [
        ({"Authorization": "Bearer x"}, "not a signed token"),
        (bearer(aud="x"), "the token is for another audience"),
        (bearer(sub=FAKE.client_id), "The token is a client's own and names no person."),
    ],
)
def test_a_refusal_has_the_code_that_front_ends_look_for(headers: dict[str, str], detail: str) -> None:
    """In the body, as SimpleJWT's ``token_not_valid`` is; a request without a token has none."""
    assert Client().get("/mine", headers=headers).json() == {"detail": detail, "code": "invalid_token"}
    assert "code" not in Client().get("/mine").json()


def test_function_views_take_the_scopes_of_a_permission() -> None:
    """A class that names scopes asks for them beside the view's; where nobody names any, the answer tells it."""

    def asked(path: str, scope: str) -> tuple[int, Any]:
        answer = Client().get(path, headers=bearer(scope=scope))
        return answer.status_code, answer.json()

    assert asked("/function", "account") == (200, {"sub": "person-1"})
    assert asked("/function", "read") == (403, {"detail": "The token lacks a scope."})
    assert asked("/both", "account read") == (200, {"sub": "person-1"})
    assert [asked("/both", scope)[0] for scope in ("account", "read")] == [403, 403]
    said = "The view names no scopes (required_scopes) and lets nobody in."
    assert asked("/silent", "account read") == (403, {"detail": said})
    assert [Client().get(path).status_code for path in ("/function", "/both", "/silent")] == [401, 401, 401]


def test_revocation_needs_a_client_that_may_ask(caplog: pytest.LogCaptureFixture) -> None:
    """The checks say so; a request is 503, and the log has why."""
    asks = {**IRONAUTH_CLIENT, "REVOCATION": True}
    with override_settings(IRONAUTH_CLIENT=asks):
        assert checks.check_settings() == []
        assert Client().get("/orders", headers=bearer()).status_code == 200
    with override_settings(IRONAUTH_CLIENT={**asks, "CLIENT_SECRET": ""}):
        (found,) = checks.check_settings()
        assert found.id == "ironauth_client.E006"
        assert "--resource-server" in found.msg
    with (
        override_settings(IRONAUTH_CLIENT={**asks, "TRANSPORT": httpx.MockTransport(lambda _: httpx.Response(401))}),
        caplog.at_level(logging.WARNING, "ironauth_client"),
    ):
        away = Client().get("/orders", headers=bearer())
    assert (away.status_code, away.json()) == (503, {"detail": "Tokens cannot be checked at the moment."})
    assert "a token could not be checked: " in caplog.text
