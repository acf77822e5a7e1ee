"""Actions on many users: everything the list shows in one field, and the words for one and for many."""

import re
from typing import Any

import pytest
from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.test import Client

from accounts.conftest import MakeUser
from accounts.users.models import User

pytestmark = [pytest.mark.django_db, pytest.mark.storage]
LIST = "/admin/accounts/user/"


def _crowd(number: int) -> None:
    User.objects.bulk_create([User(email=f"crowd{n}@example.com", password="!") for n in range(number)])


def _fields(page: str) -> list[tuple[str, str]]:
    """Return the hidden fields of the form a question consists of."""
    form = page[page.index('<div id="content"') :]
    return re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form)


def _ask(client: Client, action: str, path: str) -> str:
    """Choose everything the list shows, as the browser does."""
    first = User.objects.get(email="crowd0@example.com")
    data = {"action": action, "select_across": "1", "index": "0", "_selected_action": [str(first.pk)]}
    page: str = client.post(path, data).content.decode()
    return page


@pytest.mark.live
@pytest.mark.parametrize("action", ["end_all_sessions", "deactivate", "delete_selected"])
def test_all_of_a_long_list_is_chosen_by_one_field(client: Client, root: User, action: str) -> None:
    """More users than Django takes fields: the question is answered, and only those of the filter are concerned."""
    number = int(settings.DATA_UPLOAD_MAX_NUMBER_FIELDS or 0) + 5
    _crowd(number)
    path = f"{LIST}?q=crowd"
    fields = _fields(_ask(client, action, path))
    assert len(fields) < 10
    answer = client.post(path, dict(fields), follow=True)
    assert answer.status_code == 200
    root.refresh_from_db()
    assert (root.is_active, root.session_epoch) == (True, 0)
    crowd = User.objects.filter(email__startswith="crowd")
    done = {
        "end_all_sessions": crowd.filter(session_epoch=1),
        "deactivate": crowd.filter(is_active=False),
        "delete_selected": User.objects.filter(email__startswith="none"),
    }[action]
    assert done.count() == (0 if action == "delete_selected" else number) == crowd.count()
    assert LogEntry.objects.count() == number


def test_the_question_does_not_load_everybody(client: Client, root: User) -> None:
    """The question about three hundred people is fifty names and a count."""
    _crowd(300)
    page = _ask(client, "deactivate", f"{LIST}?q=crowd")
    assert "Deactivate: 300 users?" in page
    assert page.count("@example.com</li>") == 50
    assert "… and 250 more." in page


def test_words_for_one_and_for_many(client: Client, root: User, make_user: MakeUser) -> None:
    """Messages say "1 user" and "2 users", and who is left as they are, before and after."""
    one, two = make_user(), make_user()

    def act(*users: User, **more: str) -> str:
        chosen: dict[str, Any] = {"action": "deactivate", "_selected_action": [str(user.pk) for user in users]}
        page: str = client.post(LIST, chosen | more, follow=True).content.decode()
        return page

    assert "Deactivate: 1 user?" in act(one)
    assert "Deactivate: 2 users?" in (page := act(one, two, root))
    assert "Left as they are: 1 user (you, superusers, and people who are inactive)." in page
    assert page.index(f"<li>{two.email}") < page.index("Left as they are")  # the list is of the others
    assert "Deactivated: 2 users." in (page := act(one, two, root, confirmed="yes"))
    assert "Left as they were: 1 user (you, superusers, and people who are inactive)." in page


def test_sessions_can_be_ended_from_the_user_page(client: Client, root: User, make_user: MakeUser) -> None:
    """The page has a button that leads to the question; who has no session reads so."""
    user = make_user()
    page = client.get(f"{LIST}{user.pk}/change/").content.decode()
    assert "None." in page
    button = page[page.index('class="user-actions"') : page.index('value="End all sessions"')]
    fields = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', button))
    (path,) = re.findall(r'action="([^"]+)"', button)
    question = client.post(path, fields).content.decode()
    assert "End all sessions: 1 user?" in question
    client.post(path, dict(_fields(question)))
    assert User.objects.get(pk=user.pk).session_epoch == 1


def test_the_button_is_for_those_who_may(client: Client, manager: User, make_user: MakeUser) -> None:
    """Staff see it for everybody but superusers; those who may only look see it for nobody."""
    boss, keeper = make_user(is_superuser=True), make_user("tokens.view_signingkey")
    viewer = make_user("accounts.view_user", is_staff=True)
    button = b'value="End all sessions"'
    assert button in client.get(f"{LIST}{keeper.pk}/change/").content
    assert button not in client.get(f"{LIST}{boss.pk}/change/").content
    assert button not in client.get(f"{LIST}add/").content
    client.force_login(viewer)
    assert button not in client.get(f"{LIST}{keeper.pk}/change/").content


def test_search_finds_names_as_they_are_written(client: Client, root: User, make_user: MakeUser) -> None:
    """Letters beyond ASCII, decomposed ones, and several words; the address is compared folded."""
    emile = make_user(name="\u00c9mile Zola", email="Zola@example.com")
    make_user(name="Mule")

    def found(query: str) -> list[User]:
        return list(client.get(LIST, {"q": query}).context["cl"].result_list)

    for query in ("\u00c9mile", "\u00e9MILE", "E\u0301mile", "mile zo", "ZOLA@EX \u00c9mile", "zola"):
        assert found(query) == [emile], query
    for query in ("\u00c9mile nobody", "emill", "%", "_"):
        assert found(query) == [], query
    for column in ("given_name", "family_name", "preferred_username"):
        other = make_user(name="", **{column: f"Ing\u00e9 {column}"})
        for query in (f"NG\u00c9 {column[:5]}", column.upper()):
            assert found(query) == [other], query
