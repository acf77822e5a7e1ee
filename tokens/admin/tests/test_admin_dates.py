"""Dates in the admin: one style, no matter who writes them, and the time zone said once on each page."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.db import transaction
from django.test import Client
from django.urls import reverse

from accounts.privacy import units as deletions
from accounts.privacy.models import PendingDeletion
from accounts.users.models import User
from accounts.users.outputs import Account
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.sessions import units as sessions
from tokens.sessions.models import Session

pytestmark = pytest.mark.django_db

AT = datetime(2026, 3, 9, 15, 4, 5, tzinfo=UTC)
#: What Django writes for English: "March 9, 2026, 3:04 p.m.", "March 2026", "9 March", "3:04 p.m.".
WORDS = re.compile(r"\b(Mar\.|March|noon|midnight)|[ap]\.m\.")


def test_dates_have_one_style(
    client: Client, new_account: Callable[[], Account], new_email: Callable[[], str], signing_key: str
) -> None:
    """Of read-only fields, lists, dates to choose from, histories and rows of a person: none is in words."""
    root = User.objects.create_superuser(new_email(), email_verified_at=AT)
    client.force_login(root)
    session_id = sessions.store_first_party(
        account=new_account(), context=ClientContext("192.0.2.7", "Browser/1.0")
    ).session_id
    session = Session.objects.get(pk=session_id)
    Session.objects.update(created_at=AT)
    user = session.user
    with transaction.atomic():
        deletions.request(user_id=user.pk, old=user.password, session_id=None)
    LogEntry.objects.log_actions(root.pk, [user], CHANGE, change_message="Looked at.")
    LogEntry.objects.update(action_time=AT)
    User.objects.update(created_at=AT, updated_at=AT, last_login=AT)
    PendingDeletion.objects.update(requested_at=AT, due_at=AT)
    paths = {
        reverse("admin:accounts_user_changelist"): "2026-03-09",
        reverse("admin:accounts_user_change", args=[user.pk]): "2026-03-09 15:04",
        reverse("admin:accounts_user_history", args=[user.pk]): "2026-03-09 15:04",
        reverse("admin:tokens_session_change", args=[session_id]): "2026-03-09 15:04",
        reverse("admin:tokens_session_changelist"): "03-09",
    }
    for path, written in paths.items():
        page = client.get(path).content.decode()
        assert written in page, path
        assert not (found := WORDS.search(page)), (path, found)
        assert page.count("UTC</") == 1, path
