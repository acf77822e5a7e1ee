"""Invitations to an organisation: who makes which, what a link does and for which account, when it opens nothing."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.db.models import QuerySet
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.conftest import MakeUser
from accounts.errors import EmailNotVerified
from accounts.invitations import queries as invitation_queries
from accounts.invitations import units as invitations
from accounts.invitations.errors import InvalidInvitation, InvitationExists
from accounts.invitations.models import Invitation
from accounts.organizations import rules, units
from accounts.organizations.errors import AlreadyMember, InvitationOfAnother, TooManyMembers
from accounts.organizations.offers import queries as offers
from accounts.organizations.tests.conftest import INVITED, Acme, roles_in
from accounts.outbox import tokens as email_tokens
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied

pytestmark = [pytest.mark.django_db, pytest.mark.storage]


def do(unit: Callable[..., Any], **given: Any) -> Any:
    """Run a unit of work as the pool does."""
    with transaction.atomic():
        return unit(**given)


def link(acme: Acme, *, role: str = "member", by: User | None = None, address: str = INVITED) -> str:
    """Invite somebody, and return the token of the link in the message."""
    actor_id = (by or acme.owner).pk
    made = do(units.invite, actor_id=actor_id, organization_id=acme.id, address=address, role=role)
    token = Invitation.objects.select_related("token").get(pk=made.id).token
    assert token is not None
    return email_tokens.text(token)


def sign_up(token: str) -> User:
    """Make the account that a link allows."""
    found = invitations.find(token)
    assert found is not None
    user = do(invitations.accept, invited=found, encoded=make_password(None), name="Ida")
    return User.objects.get(pk=user.id)


def test_somebody_new_signs_up_and_is_a_member(acme: Acme) -> None:
    """With the role of the invitation, a proved address, and one event that says both."""
    token = link(acme, role="admin")
    found = invitations.find(token)
    assert found is not None
    assert (found.organization, found.taken) == ("Acme", False)
    user = sign_up(token)
    assert user.email_verified_at
    assert roles_in(acme.id)[user.pk] == "admin"
    event = AuditEvent.objects.get(event="invitation_accepted")
    assert event.details["organization"] == str(acme.id)
    assert event.details["organization_role"] == "admin"
    assert not AuditEvent.objects.filter(event="organization_joined").exists()
    assert invitations.find(token) is None


def test_somebody_with_an_account_accepts_it_signed_in(acme: Acme, make_user: MakeUser) -> None:
    """Once; the link tells its page that there is an account, and makes no other."""
    user = make_user(email="ida@example.com", email_verified_at=clock.now())
    token = link(acme)
    found = invitations.find(token)
    assert found is not None
    assert found.taken
    joined = do(units.accept, user_id=user.pk, token=token)
    assert (joined.organization_id, joined.role) == (acme.id, "member")
    assert AuditEvent.objects.get(event="organization_joined").user_id == user.pk
    with pytest.raises(InvalidInvitation):
        do(units.accept, user_id=user.pk, token=token)
    assert len(roles_in(acme.id)) == 4


@pytest.mark.parametrize("role", ["owner", "admin"])
def test_who_has_proved_no_address_invites_nobody(acme: Acme, role: str) -> None:
    """Whatever role staff have given them: until then it may be a stranger who writes to others; then they may."""
    user = getattr(acme, role)
    User.objects.filter(pk=user.pk).update(email_verified_at=None)
    with pytest.raises(EmailNotVerified):
        link(acme, by=user)
    assert not Invitation.objects.exists()
    User.objects.filter(pk=user.pk).update(email_verified_at=clock.now())
    assert link(acme, by=user)


def test_the_address_is_the_invited_one(acme: Acme, make_user: MakeUser) -> None:
    """Somebody else with the link gets nothing, and it stays good for who was invited."""
    other = make_user(email="other@example.com", email_verified_at=clock.now())
    user = make_user(email="IDA@example.com", email_verified_at=clock.now())
    token = link(acme)
    with pytest.raises(InvitationOfAnother):
        do(units.accept, user_id=other.pk, token=token)
    assert do(units.accept, user_id=user.pk, token=token).role == "member"


def test_an_unproved_account_does_not_accept(acme: Acme, make_user: MakeUser) -> None:
    """It may be a stranger's; the link itself lets the owner of the mailbox in, and the account starts clean."""
    stranger = make_user(email="ida@example.com")
    token = link(acme)
    with pytest.raises(EmailNotVerified):
        do(units.accept, user_id=stranger.pk, token=token)
    found = invitations.find(token)
    assert found is not None
    assert not found.taken
    assert sign_up(token).pk == stranger.pk
    assert [one.organization_id for one in units.memberships_of(stranger.pk)] == [acme.id]


@pytest.mark.parametrize(
    ("actor", "role", "allowed"),
    [("owner", "owner", True), ("admin", "admin", True), ("admin", "owner", False), ("member", "member", False)],
)
def test_who_invites_with_which_role(acme: Acme, actor: str, role: str, allowed: bool) -> None:
    """As who gives it to members: an admin makes no owner."""
    act = {"actor_id": getattr(acme, actor).pk, "organization_id": acme.id, "address": INVITED, "role": role}
    if allowed:
        assert do(units.invite, **act).role == role
        return
    with pytest.raises(PermissionDenied):
        do(units.invite, **act)
    assert not Invitation.objects.exists()


def test_a_member_is_not_invited(acme: Acme) -> None:
    """In whatever spelling of the address."""
    with pytest.raises(AlreadyMember):
        link(acme, address=acme.member.email.upper())


def test_one_of_each_organization_waits(acme: Acme, make_acme: Callable[..., Acme]) -> None:
    """A second one is refused, another organisation learns nothing of it, and either link works."""
    other = make_acme("Other")
    tokens = [link(acme), link(other)]
    with pytest.raises(InvitationExists):
        link(acme)
    user = sign_up(tokens[0])
    do(units.accept, user_id=user.pk, token=tokens[1])
    assert {one.name for one in units.memberships_of(user.pk)} == {"Acme", "Other"}


def test_one_of_staff_waits_beside(acme: Acme, make_user: MakeUser) -> None:
    """Neither staff nor an organisation learn of each other's."""
    staff = make_user("accounts.add_invitation")
    values = {"email": INVITED, "name": "", "language": "", "roles": []}
    link(acme)
    do(invitations.invite, actor_id=staff.pk, values=values)
    assert Invitation.objects.filter(accepted_at=None, withdrawn_at=None).count() == 2


def test_an_expired_one_gives_way(acme: Acme) -> None:
    """It is withdrawn when another is made."""
    old = link(acme)
    Invitation.objects.update(expires_at=clock.now() - timedelta(seconds=1))
    assert invitations.find(old) is None
    new = link(acme)
    assert invitations.find(old) is None
    assert invitations.find(new) is not None


def test_so_many_wait(acme: Acme, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not one more; expired ones do not count."""
    monkeypatch.setattr(rules, "MOST_WAITING", 1)
    link(acme)
    with pytest.raises(TooManyMembers):
        link(acme, address="two@example.com")
    Invitation.objects.update(expires_at=clock.now() - timedelta(seconds=1))
    assert link(acme, address="two@example.com")


def test_so_many_join(acme: Acme, monkeypatch: pytest.MonkeyPatch) -> None:
    """The invitation stays good for when there is room."""
    token = link(acme)
    monkeypatch.setattr(rules, "MOST_MEMBERS", 3)
    found = invitations.find(token)
    assert found is not None
    with pytest.raises(TooManyMembers):
        do(invitations.accept, invited=found, encoded=make_password(None), name="")
    assert not User.objects.filter(email_key="ida@example.com").exists()
    monkeypatch.setattr(rules, "MOST_MEMBERS", 4)
    assert sign_up(token).pk in roles_in(acme.id)


def _leave(acme: Acme) -> None:
    do(units.leave, user_id=acme.admin.pk, organization_id=acme.id)


def _remove(acme: Acme) -> None:
    do(units.remove_member, actor_id=acme.owner.pk, organization_id=acme.id, user_id=acme.admin.pk)


def _demote(acme: Acme) -> None:
    do(units.set_role, actor_id=acme.owner.pk, organization_id=acme.id, user_id=acme.admin.pk, role="member")


def _deactivate(acme: Acme) -> None:
    User.objects.filter(pk=acme.admin.pk).update(is_active=False)


def _delete_account(acme: Acme) -> None:
    acme.admin.delete()


@pytest.mark.parametrize("lose", [_leave, _remove, _demote, _deactivate, _delete_account])
def test_who_may_not_invite_any_more_has_invited_nobody(acme: Acme, lose: Callable[[Acme], None]) -> None:
    """Their links open nothing; those of others do."""
    theirs, owners = link(acme, by=acme.admin), link(acme, address="two@example.com")
    found = invitations.find(theirs)
    assert found is not None
    lose(acme)
    assert invitations.find(theirs) is None
    with pytest.raises(InvalidInvitation):
        do(invitations.accept, invited=found, encoded=make_password(None), name="")
    assert not User.objects.filter(email_key="ida@example.com").exists()
    assert invitations.find(owners) is not None


@pytest.mark.parametrize("lose", [_leave, _remove, _demote, _deactivate, _delete_account])
def test_nobody_is_shown_an_invitation_that_opens_nothing(
    acme: Acme, make_user: MakeUser, lose: Callable[[Acme], None]
) -> None:
    """Members, the invited person and staff alike; to each it is as one that was never made, and gives way."""
    ida, staff = make_user(email="ida@example.com", email_verified_at=clock.now()), make_user("accounts.add_invitation")
    token = link(acme, by=acme.admin)
    row = Invitation.objects.get()
    assert [one.id for one in offers.waiting_for(ida.pk)] == [row.pk]
    assert _waiting(acme) == [row.pk]
    lose(acme)
    assert offers.waiting_for(ida.pk) == []
    assert _waiting(acme) == []
    assert invitation_queries.page({"page_size": 50}).rows[0].state == "withdrawn"
    about = {"actor_id": acme.owner.pk, "organization_id": acme.id, "invitation_id": row.pk}
    with pytest.raises(NotFound):
        do(units.withdraw, **about)
    with pytest.raises(NotFound):
        do(invitations.send_again, actor_id=staff.pk, invitation_id=row.pk)
    for answer in (offers.accept, offers.decline):
        with pytest.raises(InvalidInvitation):
            do(answer, user_id=ida.pk, invitation_id=row.pk)
    for by_token in (units.accept, units.decline):
        with pytest.raises(InvalidInvitation):
            do(by_token, user_id=ida.pk, token=token)
    assert link(acme)


def test_dead_ones_take_no_place(acme: Acme, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that may wait."""
    monkeypatch.setattr(rules, "MOST_WAITING", 1)
    link(acme, by=acme.admin)
    with pytest.raises(TooManyMembers):
        link(acme, address="two@example.com")
    deactivate_unheard(acme)
    assert link(acme, address="two@example.com")


def deactivate_unheard(acme: Acme) -> None:
    """Deactivate the admin without anybody hearing of it: as a row was left by an earlier release."""
    QuerySet(User).filter(pk=acme.admin.pk).update(is_active=False)


def test_the_invited_person_declines(acme: Acme, make_user: MakeUser) -> None:
    """Nobody else does; then the link opens nothing, its message is not sent, and there may be another."""
    ida = make_user(email="ida@example.com", email_verified_at=clock.now())
    other = make_user(email="other@example.com", email_verified_at=clock.now())
    token = link(acme)
    row = Invitation.objects.get()
    with pytest.raises(InvitationOfAnother):
        do(units.decline, user_id=other.pk, token=token)
    with pytest.raises(InvalidInvitation):
        do(offers.decline, user_id=other.pk, invitation_id=row.pk)
    User.objects.filter(pk=ida.pk).update(email_verified_at=None)
    with pytest.raises(EmailNotVerified):
        do(units.decline, user_id=ida.pk, token=token)
    with pytest.raises(InvalidInvitation):
        do(offers.decline, user_id=ida.pk, invitation_id=row.pk)
    assert invitations.find(token) is not None
    User.objects.filter(pk=ida.pk).update(email_verified_at=clock.now())
    do(units.decline, user_id=ida.pk, token=token)
    assert invitations.find(token) is None
    assert not OutgoingMail.objects.filter(kind="organization_invitation").exists()
    assert ida.pk not in roles_in(acme.id)
    event = AuditEvent.objects.get(event="member_invitation_declined")
    assert (event.actor_id, event.details) == (ida.pk, {"organization": str(acme.id), "invitation": str(row.pk)})
    with pytest.raises(InvalidInvitation):
        do(units.accept, user_id=ida.pk, token=token)
    assert link(acme)


def _waiting(acme: Acme) -> list[Any]:
    found = units.waiting_invitations(actor_id=acme.owner.pk, organization_id=acme.id)
    return [one.id for one in found]


def test_an_owner_made_admin_has_made_no_owners(acme: Acme) -> None:
    """Their invitations with a role that an admin may give stay."""
    do(units.set_role, actor_id=acme.owner.pk, organization_id=acme.id, user_id=acme.admin.pk, role="owner")
    as_owner, as_member = link(acme, role="owner", by=acme.admin), link(acme, by=acme.admin, address="b@example.com")
    do(units.set_role, actor_id=acme.owner.pk, organization_id=acme.id, user_id=acme.admin.pk, role="admin")
    assert invitations.find(as_owner) is None
    assert invitations.find(as_member) is not None


def test_a_withdrawn_one_opens_nothing(acme: Acme, make_acme: Callable[..., Acme]) -> None:
    """Its message is not sent; another organisation does not reach it, and an admin not that of an owner."""
    token = link(acme, role="owner")
    row = Invitation.objects.get()
    other = make_acme("Other")
    for actor, organization, error in (
        (other.owner, other, NotFound),
        (other.owner, acme, NotFound),
        (acme.admin, acme, PermissionDenied),
    ):
        with pytest.raises(error):
            do(units.withdraw, actor_id=actor.pk, organization_id=organization.id, invitation_id=row.pk)
    assert invitations.find(token) is not None
    do(units.withdraw, actor_id=acme.owner.pk, organization_id=acme.id, invitation_id=row.pk)
    assert invitations.find(token) is None
    assert not OutgoingMail.objects.exists()
    with pytest.raises(NotFound):
        do(units.withdraw, actor_id=acme.owner.pk, organization_id=acme.id, invitation_id=row.pk)


def test_with_the_organization_they_go(acme: Acme) -> None:
    """The link, the row, and the message that waits."""
    token = link(acme)
    do(units.delete_organization, actor_id=acme.owner.pk, organization_id=acme.id)
    assert invitations.find(token) is None
    assert (Invitation.objects.count(), EmailToken.objects.count(), OutgoingMail.objects.count()) == (0, 0, 0)


def test_with_off_a_link_opens_nothing(acme: Acme, settings: Settings) -> None:
    """Until there are organisations again."""
    token = link(acme)
    settings.IRONAUTH_ORGANIZATIONS = "off"
    assert invitations.find(token) is None
    settings.IRONAUTH_ORGANIZATIONS = "staff"
    assert invitations.find(token) is not None


@pytest.mark.parametrize("sign_up_mode", ["open", "invitation"])
def test_a_sign_in_elsewhere_joins_only_where_it_needs_the_invitation(
    acme: Acme, make_user: MakeUser, settings: Settings, sign_up_mode: str
) -> None:
    """Where anybody may sign up, nobody becomes a member of what they have not seen: the link stays good."""
    settings.IRONAUTH_SIGN_UP = sign_up_mode
    token = link(acme)
    user = make_user(email=INVITED, email_verified_at=clock.now())
    needed = sign_up_mode == "invitation"
    with transaction.atomic():
        assert invitation_queries.accept_elsewhere(user, "google") is needed
    assert (user.pk in roles_in(acme.id)) is needed
    assert (invitations.find(token) is None) is needed


def test_the_message_says_nothing_that_somebody_typed(make_acme: Callable[..., Acme]) -> None:
    """Anybody could have us send any words to any address otherwise; the page of the link names the organisation."""
    acme = make_acme("Win at https://evil.example")
    link(acme)
    (queued,) = OutgoingMail.objects.all()
    assert queued.kind == "organization_invitation"
    assert "evil" not in str(queued.facts)
