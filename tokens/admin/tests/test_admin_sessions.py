"""Which application a session is of, on the admin's pages."""

import re
from collections.abc import Callable
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounts.users.models import User
from accounts.users.outputs import Account
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.oauth.tests.material import make_client
from tokens.sessions import units as sessions
from tokens.sessions.models import FIRST_PARTY_CLIENT, SSO_CLIENT, Session

pytestmark = [pytest.mark.django_db, pytest.mark.storage]

LIST = "admin:tokens_session_changelist"


@pytest.fixture
def browser(client: Client, new_email: Callable[[], str]) -> Client:
    """A superuser's browser."""
    client.force_login(User.objects.create_user(email=new_email(), is_staff=True, is_superuser=True))
    return client


@pytest.fixture
def open_for(new_account: Callable[[], Account]) -> Callable[..., list[Session]]:
    """A maker of sessions of one person, one for each of these clients."""
    account = new_account()

    def make(*client_ids: str) -> list[Session]:
        opened = [sessions.store_first_party(account=account, context=ClientContext()).session_id for _ in client_ids]
        for session_id, client_id in zip(opened, client_ids, strict=True):
            Session.objects.filter(pk=session_id).update(client_id=client_id)
        return list(Session.objects.filter(pk__in=opened))

    return make


def named(browser: Client, path: str = "") -> list[str]:
    """Return the applications that the list names, or another page, sorted."""
    page = browser.get(path or reverse(LIST)).content.decode()
    return sorted(re.findall(r'class="field-application">\s*(?:<p>)?([^<]*)<', page))


def test_a_session_names_its_application(browser: Client, open_for: Callable[..., list[Session]]) -> None:
    """Wherever it is shown: IronAuth, single sign-on or a client's name, and the id of a client that is gone."""
    wiki, gone = make_client(name="Wiki & more")[0], str(uuid4())
    shown = {FIRST_PARTY_CLIENT: "IronAuth", SSO_CLIENT: "Single sign-on", str(wiki.pk): "Wiki &amp; more", gone: gone}
    opened = open_for(*shown)
    assert named(browser) == sorted(shown.values())
    person = reverse("admin:accounts_user_change", args=[opened[0].user_id])
    assert named(browser, person) == sorted(shown.values())
    for session in opened:
        page = browser.get(reverse("admin:tokens_session_change", args=[session.pk])).content.decode()
        assert f'<div class="readonly">{shown[session.client_id]}</div>' in page


@pytest.mark.parametrize("of_person", [False, True])
def test_a_page_of_sessions_asks_once_for_names(
    browser: Client, open_for: Callable[..., list[Session]], of_person: bool
) -> None:
    """One query for the names, however many clients and sessions are on it, and none where all were opened here."""
    person = open_for(FIRST_PARTY_CLIENT, SSO_CLIENT)[0].user_id
    path = reverse("admin:accounts_user_change", args=[person]) if of_person else reverse(LIST)

    def queries() -> tuple[int, int]:
        with CaptureQueriesContext(connection) as captured:
            assert browser.get(path).status_code == 200
        of_clients = [query for query in captured.captured_queries if 'FROM "tokens_oauthclient"' in query["sql"]]
        return len(captured), len(of_clients)

    queries()  # Django remembers content types
    without, none = queries()
    assert none == 0
    open_for(str(make_client(name="Wiki")[0].pk))
    assert queries() == (without + 1, 1)
    open_for(*(str(make_client(name=f"Client {n}")[0].pk) for n in range(9)), SSO_CLIENT)
    assert queries() == (without + 1, 1)
    assert len(named(browser, path)) == 13
