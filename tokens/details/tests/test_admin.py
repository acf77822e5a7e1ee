"""Types of authorization details in Django's admin: judged as typed, with one event an act, by rights."""

import json

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from accounts.audit.models import AuditEvent
from accounts.users.models import User
from tokens.clients.models import OAuthClient
from tokens.details.models import DetailType
from tokens.oauth.tests.material import make_client

pytestmark = pytest.mark.django_db

ADD, LIST = "admin:tokens_detailtype_add", "admin:tokens_detailtype_changelist"
MEMBERS = {"amount": {"kind": "text", "required": True}}
TYPED = {"identifier": "payment", "words": "Pay {amount}", "members": json.dumps(MEMBERS), "active": "on"}


def browser(*rights: str, superuser: bool = False) -> Client:
    """Return the browser of somebody of staff with these rights."""
    user = User.objects.create_user(email=f"{len(rights)}@example.com", is_staff=True, is_superuser=superuser)
    user.user_permissions.set(Permission.objects.filter(codename__in=rights))
    client = Client()
    client.force_login(user)
    return client


def change_of(row: DetailType) -> str:
    return reverse("admin:tokens_detailtype_change", args=[row.pk])


def test_made_changed_and_deleted() -> None:
    """The identifier stays, a form that changes nothing leaves no event, each act leaves one."""
    root = browser(superuser=True)
    assert root.post(reverse(ADD), TYPED).status_code == 302
    row = DetailType.objects.get()
    assert (row.identifier, row.members, row.unattended, row.active) == ("payment", MEMBERS, False, True)
    page = root.get(change_of(row)).content.decode()
    assert "&quot;required&quot;: true" in page
    assert 'name="identifier"' not in page
    assert root.post(change_of(row), {**TYPED, "identifier": "other"}).status_code == 302
    assert root.post(change_of(row), {**TYPED, "members": "", "words": "Pay", "active": ""}).status_code == 302
    row.refresh_from_db()
    assert (row.identifier, row.words, row.members, row.active) == ("payment", "Pay", {}, False)
    assert root.post(reverse("admin:tokens_detailtype_delete", args=[row.pk]), {"post": "yes"}).status_code == 302
    events = AuditEvent.objects.filter(event__startswith="detail_type_").order_by("pk")
    assert [one.event for one in events] == ["detail_type_created", "detail_type_changed", "detail_type_deleted"]
    assert events[1].details["fields"] == ["active", "members", "words"]


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"members": "{"}, "is not valid JSON"),
        ({"members": '{"a": {"kind": "text"}, "a": {"kind": "flag"}}'}, "a member twice"),
        ({"members": "[" * 5_000}, "is not valid JSON"),
        ({"members": '{"a": {"kind": "number"}}', "words": "Pay"}, "no declaration"),
        ({"words": "Pay {iban}"}, "no required member"),
        ({"words": "Pay {amount"}, "Braces"),
        ({"identifier": "pay ment"}, "name or URI"),
        ({"identifier": ""}, "required"),
    ],
)
def test_what_is_wrong_stands_at_its_field(changes: dict[str, str], part: str) -> None:
    """The form comes back with what was typed, and nothing is stored."""
    answer = browser(superuser=True).post(reverse(ADD), {**TYPED, **changes})
    assert (answer.status_code, part in answer.content.decode()) == (200, True)
    assert not DetailType.objects.exists()


def test_each_act_needs_its_right() -> None:
    """Who may see types may not make one; the name of another right opens nothing."""
    sees, none = browser("view_detailtype"), browser("view_apiresource", "add_apiresource")
    assert sees.get(reverse(LIST)).status_code == 200
    assert sees.post(reverse(ADD), TYPED).status_code == 403
    assert none.get(reverse(LIST)).status_code == 403


def test_a_client_names_its_types() -> None:
    """One to a line on its page; one that is not registered is refused there."""
    root, client = browser(superuser=True), make_client()[0]
    DetailType.objects.create(identifier="payment", words="Pay")
    page = reverse("admin:tokens_oauthclient_change", args=[client.pk])
    assert "authorization_details_types" in root.get(f"{page}?tab=all").content.decode()
    assert OAuthClient.objects.get(pk=client.pk).authorization_details_types == []
