"""What invitations do over HTTP: made and withdrawn by staff, accepted by people; async, keyword-only."""

import uuid
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import IntegrityError
from django.utils.translation import gettext_noop as _

from accounts import email_address as emails
from accounts.access.listing import list_for_holder
from accounts.access.rights import VIEW_INVITATIONS
from accounts.errors import EmailTaken, SignUpClosed
from accounts.invitations import queries, units
from accounts.invitations.errors import InvalidInvitation, InvitationExists
from accounts.invitations.outputs import InvitationOut
from accounts.invitations.units import Invited
from accounts.lockout import rate_limits
from accounts.passwords import hashing as passwords
from accounts.passwords.breached import require_unbreached
from accounts.passwords.policy import require_policy
from accounts.privacy import terms
from accounts.users.outputs import UserOut
from ironauth.infrastructure.api.paging import Page
from ironauth.infrastructure.core.errors import FieldError, ValidationFailed
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.telemetry.logs import get_logger

__all__ = ["Invited"]


async def invite(*, actor_id: uuid.UUID, values: Mapping[str, Any]) -> InvitationOut:
    """Invite somebody: store it, and have the message sent.

    Args:
        actor_id: The member of staff.
        values: The fields of ``InvitationInput``.

    Raises:
        InvitationExists: One to the address waits for an answer.
        Throttled: Too many messages were sent to the address.
        DomainError: What ``units.require_may_invite`` raises.
    """
    await database().read(units.require_may_invite, actor_id=actor_id, roles=values["roles"])
    await rate_limits.admit_mail(kind="invitation", email=values["email"])
    try:
        made = await database().write(units.invite, actor_id=actor_id, values=values)
    except IntegrityError as error:
        raise InvitationExists from error
    get_logger().info("invitation_made", invitation=str(made.id), by=str(actor_id))
    return made


async def send_again(*, actor_id: uuid.UUID, invitation_id: uuid.UUID) -> InvitationOut:
    """Have another message sent with a new link; the link before opens nothing.

    Args:
        actor_id: The member of staff.
        invitation_id: The invitation.

    Raises:
        NotFound: None with this id waits for an answer; an expired one does.
        Throttled: Too many messages were sent to the address.
        DomainError: What ``units.require_may_invite`` raises.
    """
    email = await database().read(units.address_of, actor_id=actor_id, invitation_id=invitation_id)
    await rate_limits.admit_mail(kind="invitation", email=email)
    sent = await database().write(units.send_again, actor_id=actor_id, invitation_id=invitation_id)
    get_logger().info("invitation_sent_again", invitation=str(invitation_id), by=str(actor_id))
    return sent


async def list_invitations(*, actor_id: uuid.UUID, filters: Mapping[str, Any]) -> Page[InvitationOut]:
    """Return one page of invitations, the newest first.

    Args:
        actor_id: The member of staff.
        filters: Those of ``InvitationListInput``.

    Raises:
        PermissionDenied: The caller may not see them.
        ValidationFailed: The cursor is not one of ours.
    """
    return await list_for_holder(actor_id, VIEW_INVITATIONS, queries.page, filters)


async def withdraw(*, actor_id: uuid.UUID, invitation_id: uuid.UUID) -> None:
    """End an invitation.

    Args:
        actor_id: The member of staff.
        invitation_id: The invitation.

    Raises:
        NotFound: None with this id waits for an answer.
        PermissionDenied: The caller may not do it.
    """
    await database().write(units.withdraw, actor_id=actor_id, invitation_id=invitation_id)
    get_logger().info("invitation_withdrawn", invitation=str(invitation_id), by=str(actor_id))


async def opened(*, token: str) -> Invited:
    """Return what a link opens, for its page to say; nothing is changed.

    Raises:
        InvalidInvitation: It opens nothing.
        SignUpClosed: Nobody may make an account here.
    """
    found = await database().read(units.find, token)
    if found is None or not (found.taken and found.organization):  # else nobody makes an account by it
        _require_open()
    if found is None:
        raise InvalidInvitation
    return found


async def sought(*, token: str) -> Invited | None:
    """Return what a link opens, also where nobody may make an account; None for a link of no use.

    Args:
        token: What the message brought.
    """
    return await database().read(units.find, token) if token else None


async def used(*, invitation_id: uuid.UUID) -> Invited | None:
    """Return what an invitation has led to that somebody has accepted; None for none.

    Args:
        invitation_id: The invitation, as the first of two clicks has noted it.
    """
    return await database().read(units.used, invitation_id)


async def accept(
    *, token: str, password: str, name: str, terms_version: str = "", email: str = "", address: str = ""
) -> UserOut:
    """Create the account that an invitation allows; its address counts as verified.

    Args:
        token: What the message brought.
        password: As it was typed.
        name: The display name.
        terms_version: Which version of the terms the person has accepted.
        email: The address as the person gave it, which has to be the invitation's; "" where nobody asked.
        address: The client's.

    Raises:
        InvalidInvitation: The token opens nothing.
        Throttled: In its place, after too many of them; or too many sign-ups.
        EmailTaken: An account has proved the address by now. The invitation stays.
        ValidationFailed: The policy or a breach refuses the password, the address is another one, or the
            terms are not accepted.
        SignUpClosed: Nobody may make an account here.
        Overloaded: The hash pool is full.
    """
    _require_open()
    hash_pool().require_capacity()
    invited = await database().read(units.find, token)
    if invited is None:
        await rate_limits.admit(rate_limits.EMAIL_TOKEN, address=address)
        raise InvalidInvitation
    if email and emails.fold(email) != emails.fold(invited.email):
        raise ValidationFailed(
            errors=[
                FieldError("email", "not_invited", _("The invitation is to another address: sign up with that one."))
            ]
        )
    if invited.taken:
        raise EmailTaken
    terms.require_accepted(terms_version)
    require_policy(password, email=invited.email, name=name, field="password")
    await rate_limits.admit(rate_limits.SIGN_UP, address=address)
    await require_unbreached(password, field="password")
    encoded = await passwords.hash_password(password)
    try:
        user = await database().write(units.accept, invited=invited, encoded=encoded, name=name)
    except IntegrityError as error:
        raise EmailTaken from error
    get_logger().info("invitation_accepted", user_id=str(user.id), invitation=str(invited.id))
    return user


async def decline(*, token: str, address: str = "") -> None:
    """End an invitation for the holder of its link, whether or not they could accept it.

    Args:
        token: What the message brought.
        address: The client's.

    Raises:
        InvalidInvitation: The token opens nothing.
        Throttled: In its place, after too many of them.
    """
    if await sought(token=token) is None:
        await rate_limits.admit(rate_limits.EMAIL_TOKEN, address=address)
        raise InvalidInvitation
    declined = await database().write(units.decline, token)
    get_logger().info("invitation_declined", invitation=str(declined))


def _require_open() -> None:
    if settings.IRONAUTH_SIGN_UP not in ("open", "invitation"):
        raise SignUpClosed
