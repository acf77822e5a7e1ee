"""Organisations and memberships in Django's admin: made, found, changed and ended, with the rights and the events."""

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.conftest import MakeUser
from accounts.organizations.models import Membership, Organization
from accounts.organizations.tests.conftest import Acme, roles_in
from accounts.users.models import User

pytestmark = pytest.mark.django_db
ORGANIZATIONS, MEMBERSHIPS = "/admin/accounts/organization/", "/admin/accounts/membership/"
RIGHTS = tuple(f"accounts.{verb}_organization" for verb in ("view", "add", "change", "delete"))


@pytest.fixture
def boss(make_user: MakeUser, client: Client) -> User:
    """Sign in to the admin with the rights over organisations alone."""
    user = make_user(*RIGHTS, email="boss@example.com", is_staff=True)
    client.force_login(user)
    return user


def page_of(acme: Acme) -> str:
    """Return where an organisation is in the admin."""
    return f"{ORGANIZATIONS}{acme.id}/change/"


def membership_of(user: User) -> Membership:
    """Return the only membership of somebody."""
    return Membership.objects.get(user=user)


def test_it_is_made_for_somebody(boss: User, client: Client, make_user: MakeUser) -> None:
    """With the event of the API, by the address of the owner in any spelling."""
    mia = make_user(email="mia@example.com")
    body = {"name": " Acme ", "slug": "acme", "owner": "MIA@example.com"}
    assert client.post(f"{ORGANIZATIONS}add/", body).status_code == 302
    made = Organization.objects.get()
    assert (made.name, made.slug, roles_in(made.pk)) == ("Acme", "acme", {mia.pk: "owner"})
    event = AuditEvent.objects.get(event="organization_created")
    assert (event.actor_id, event.user_id) == (boss.pk, mia.pk)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("owner", "nobody@example.com"), ("owner", "a\x00@example.com"), ("owner", "gone@example.com"), ("slug", "A b"),
        ("slug", "taken"), ("name", ""), ("name", "a\u2066b"),
    ],
)  # fmt: skip
def test_what_it_cannot_be(boss: User, client: Client, make_user: MakeUser, field: str, value: str) -> None:
    """The form says it at the field, and nothing is made."""
    make_user(email="mia@example.com")
    make_user(email="gone@example.com", is_active=False)
    Organization.objects.create(name="Taken", slug="taken")
    body = {"name": "Acme", "slug": "acme", "owner": "mia@example.com"} | {field: value}
    answer = client.post(f"{ORGANIZATIONS}add/", body)
    assert answer.status_code == 200
    assert set(answer.context["adminform"].form.errors) == {field}
    assert Organization.objects.count() == 1


def test_it_is_found_and_shows_its_members(boss: User, client: Client, acme: Acme) -> None:
    """By part of its name; its page links each membership. So does the list of memberships, by address and name."""
    Organization.objects.create(name="Other", slug="other")
    found = client.get(ORGANIZATIONS, {"q": "ACM"}).context["cl"].queryset
    assert [(one.pk, one.members) for one in found] == [(acme.id, 3)]
    page = client.get(page_of(acme)).content.decode()
    for user in (acme.owner, acme.admin, acme.member):
        assert user.email in page
        assert reverse("admin:accounts_membership_change", args=[membership_of(user).pk]) in page
    for words in ("acme", acme.member.email[:12]):
        shown = client.get(MEMBERSHIPS, {"q": words}).content.decode()
        assert acme.member.email.partition("@")[0] in shown
    assert client.get(MEMBERSHIPS, {"role__exact": "owner"}).context["cl"].result_count == 1


def test_it_is_renamed_and_keeps_its_short_name(boss: User, client: Client, acme: Acme) -> None:
    """Whatever else the form is sent."""
    slug = Organization.objects.get().slug
    assert client.post(page_of(acme), {"name": "New", "slug": "other", "owner": "x"}).status_code == 302
    row = Organization.objects.get()
    assert (row.name, row.slug) == ("New", slug)
    assert AuditEvent.objects.filter(event="organization_renamed", actor_id=boss.pk).count() == 1


def test_it_is_deleted_with_its_members(boss: User, client: Client, acme: Acme, told: list[object]) -> None:
    """Who hear of it as by the API."""
    assert client.post(f"{ORGANIZATIONS}{acme.id}/delete/", {"post": "yes"}).status_code == 302
    assert not Organization.objects.exists()
    assert len(told) == 1
    assert AuditEvent.objects.get(event="organization_deleted").actor_id == boss.pk


def test_a_member_is_added_changed_and_removed(
    boss: User, client: Client, acme: Acme, make_user: MakeUser, told: list[object]
) -> None:
    """By address and short name; each with its event."""
    make_user(email="mia@example.com")
    body = {"person": "mia@example.com", "belongs_to": Organization.objects.get().slug, "role": "member"}
    assert client.post(f"{MEMBERSHIPS}add/", body).status_code == 302
    row = Membership.objects.get(user__email="mia@example.com")
    assert client.post(f"{MEMBERSHIPS}{row.pk}/change/", {"role": "admin"}).status_code == 302
    assert roles_in(acme.id)[row.user_id] == "admin"
    assert client.post(f"{MEMBERSHIPS}{row.pk}/delete/", {"post": "yes"}).status_code == 302
    assert row.user_id not in roles_in(acme.id)
    events = AuditEvent.objects.filter(user_id=row.user_id).order_by("pk").values_list("event", flat=True)
    assert list(events) == ["member_added", "member_role_changed", "member_removed"]
    assert len(told) == 2


def test_the_last_owner_stays_here_too(boss: User, client: Client, acme: Acme) -> None:
    """Neither another role nor the end: the page says why."""
    row = membership_of(acme.owner)
    for path, body in ((f"{row.pk}/change/", {"role": "member"}), (f"{row.pk}/delete/", {"post": "yes"})):
        answer = client.post(f"{MEMBERSHIPS}{path}", body, follow=True)
        assert "This is the last owner" in answer.content.decode()
    assert roles_in(acme.id)[acme.owner.pk] == "owner"


@pytest.mark.parametrize("held", [(), *[(right,) for right in RIGHTS]])
def test_each_page_needs_its_right(client: Client, acme: Acme, make_user: MakeUser, held: tuple[str, ...]) -> None:
    """To see, to make, to change with the members, to delete."""
    client.force_login(make_user(*held, is_staff=True))
    row = membership_of(acme.member)
    pages = {
        ORGANIZATIONS: {"view", "change"},
        f"{ORGANIZATIONS}add/": {"add"},
        page_of(acme): {"view", "change"},
        f"{ORGANIZATIONS}{acme.id}/delete/": {"delete"},
        MEMBERSHIPS: {"view", "change"},
        f"{MEMBERSHIPS}add/": {"change"},
        f"{MEMBERSHIPS}{row.pk}/delete/": {"change"},
    }
    for path, rights in pages.items():
        may = any(f"accounts.{right}_organization" in held for right in rights)
        assert client.get(path).status_code == (200 if may else 403), path


def test_with_off_there_are_no_pages(root: User, client: Client, acme: Acme, settings: Settings) -> None:
    """Neither in the list of pages, nor by their addresses, nor a line on a person's page."""
    person = reverse("admin:accounts_user_change", args=[acme.owner.pk])
    row, line = membership_of(acme.member), "<label>Organizations:</label>"
    assert line in client.get(person).content.decode()
    settings.IRONAUTH_ORGANIZATIONS = "off"
    for path in (
        ORGANIZATIONS,
        f"{ORGANIZATIONS}add/",
        page_of(acme),
        f"{ORGANIZATIONS}{acme.id}/delete/",
        f"{ORGANIZATIONS}{acme.id}/history/",
        MEMBERSHIPS,
        f"{MEMBERSHIPS}add/",
        f"{MEMBERSHIPS}{row.pk}/change/",
    ):
        assert client.get(path).status_code == 404, path
    assert ORGANIZATIONS not in client.get("/admin/").content.decode()
    page = client.get(person).content.decode()
    assert line not in page
    assert "/membership/" not in page


def test_a_persons_page_says_what_they_are_a_member_of(boss: User, client: Client, acme: Acme, root: User) -> None:
    """With the role, linked to the membership."""
    page = client.get(reverse("admin:accounts_user_change", args=[acme.admin.pk])).content.decode()
    assert reverse("admin:accounts_membership_change", args=[membership_of(acme.admin).pk]) in page
    assert "admin" in page
