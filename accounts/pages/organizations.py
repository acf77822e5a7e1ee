"""The pages of a person's organisations: the list, one organisation, its deletion, and one of its members.

What a form does is asked of the room of organisations, whose rules hold here as for the API.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Final
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext_noop as _
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from accounts import names
from accounts.invitations.errors import InvitationExists
from accounts.organizations import queries, roles, rules, services
from accounts.organizations.errors import AlreadyMember
from accounts.organizations.inputs import MemberInvitationInput, MemberRoleInput, OrganizationInput
from accounts.organizations.offers import queries as offers
from accounts.organizations.outputs import MembershipRow
from accounts.organizations.roles import Act as Right
from accounts.organizations.roles import Role
from accounts.pages import acts
from accounts.pages.acts import ALWAYS
from accounts.pages.own_page import (
    EXPIRED,
    form_token,
    is_from_elsewhere,
    is_own_form,
    rendered,
    row_address,
    see_other,
)
from accounts.pages.proving import MAILED, ProvingPage
from accounts.pages.refusals import Refusal, of_act, of_proof
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import DomainError, NotFound
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import client_context, second_clicks
from ironauth.infrastructure.telemetry.logs import get_logger

SECTION: Final = "organizations"
#: What a role is called on pages.
ROLES: Final[Mapping[str, str]] = {Role.OWNER: _("Owner"), Role.ADMIN: _("Administrator"), Role.MEMBER: _("Member")}
#: Members on one page.
PAGE_SIZE: Final = 50
_UNKNOWN: Final = _("There is no such act. Use one of the buttons.")
_NO_ROLE: Final = _("Choose one of the roles in the list.")
#: What is said at the address that somebody invites, by the code of the refusal.
ABOUT_ADDRESS: Final = {
    AlreadyMember.code: AlreadyMember.detail,
    InvitationExists.code: _("An invitation to this address waits for an answer. Withdraw it before you send another."),
}
#: What a page says after an act.
_DONE: Final = {
    "create": _("The organisation was made."),
    "accept": _("You are a member now."),
    "decline": _("You have declined the invitation."),
    "leave": _("You have left the organisation."),
    "rename": _("The organisation has its new name."),
    "delete": _("The organisation was deleted."),
    "invite": _("The invitation is on its way."),
    "withdraw": _("The invitation was withdrawn."),
    "role": _("The role was changed."),
    "remove": _("The member was removed."),
}


class ItemForm(serializers.Serializer[Any]):
    """Which of the listed things a button is about."""

    item = serializers.UUIDField()


type Handler = Callable[..., Awaitable[str]]


#: Acts that can be done once: what refuses the second of two clicks is what the first one has done.
ONCE: Final = frozenset({"accept", "decline", "invite", "withdraw"})


class OrganizationPage(ProvingPage):
    """What these pages share: forms of this person alone, one act each, and errors at the fields."""

    #: The acts of the page, by the value of the button. Each returns the address to go on to.
    acts: ClassVar[Mapping[str, str]]
    #: Those that want a proof of the last ten minutes.
    proved: ClassVar[frozenset[str]] = frozenset()
    #: The organisation that an act has led to, for the second of two clicks; None for the page itself.
    led_to: UUID | None = None

    async def initial(self, request: ApiRequest, *args: Any, **kwargs: Any) -> None:
        """Know the person; where there are no organisations there is no such page."""
        if not rules.enabled():
            raise Http404
        await super().initial(request, *args, **kwargs)

    @extend_schema(exclude=True)
    async def get(self, request: ApiRequest, **at: UUID) -> HttpResponse:
        """Show the page, and what was done before."""
        done = "" if is_from_elsewhere(request) else _DONE.get(request.query_params.get("done", ""), "")
        return await self._page(request, at, {"done": done} if done else {})

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest, **at: UUID) -> HttpResponse:
        """Do what the pressed button says, and go on; or show the page again with what is wrong."""
        name = str(request.data.get("act", ""))
        if not is_own_form(request):
            return await self._page(request, at, refusal=Refusal(name, 403, EXPIRED))
        if name not in self.acts:
            return await self._page(request, at, refusal=Refusal(name, 400, _UNKNOWN))
        if name in self.proved and (page := await self._unproved(request, name, at)) is not None:
            return page
        act: Handler = getattr(self, self.acts[name])
        try:
            address = await act(request, signed_in(request).id, **at)
        except ValidationError as error:
            fields = error.detail if isinstance(error.detail, dict) else {}
            errors = {str(field): [str(reason) for reason in reasons] for field, reasons in fields.items()}
            problem = _UNKNOWN if "item" in errors else ""
            if "role" in errors:
                errors["role"] = [_NO_ROLE]
            return await self._page(request, at, refusal=Refusal(name, 400, problem, errors))
        except DomainError as error:
            return await self._refused(request, name, error, at)
        if name in ONCE:
            await second_clicks.note(request, led_to=self.led_to)
        return see_other(f"{address}?{urlencode({'done': name})}")

    async def _unproved(self, request: ApiRequest, name: str, at: Mapping[str, UUID]) -> HttpResponse | None:
        """Return the page where the person has to prove again who they are, and has not; None where they have."""
        if "mail_code" in request.data:
            answer = await self.api.call("POST", "step-up-email")
            if answer.is_good:
                return await self._page(request, at, {"done": MAILED, "code_sent": True})
            return await self._page(request, at, refusal=of_act(name, PROVE, answer))
        if not await self.wants_proof(request, ALWAYS):
            return None
        proved = await self.prove(request.data, PROVE)
        if proved is not None and proved.is_good:
            return None
        by_recovery = bool(request.data.get("proof_recovery_code"))
        return await self._page(request, at, refusal=of_proof(name, PROVE, proved, by_recovery))

    async def _refused(
        self, request: ApiRequest, name: str, error: DomainError, at: Mapping[str, UUID]
    ) -> HttpResponse:
        """Return the page with what is wrong; where there is nothing left to show, the row of all organisations.

        The second of two clicks is led on: what refuses it is what the first one has done.
        """
        if name in ONCE and (first := await second_clicks.first_of(request)) is not None:
            address = request.path if first.led_to is None else address_of(first.led_to)
            return see_other(f"{address}?{urlencode({'done': name})}")
        errors: dict[str, list[str]] = {}
        for one in error.errors:
            errors.setdefault(one.field, []).append(one.message)
        if error.code in ABOUT_ADDRESS:
            errors["email"] = [ABOUT_ADDRESS[error.code]]
        wait_s = error.headers.get("Retry-After", "")
        refusal = Refusal(name, error.status, "" if errors else str(error.detail), errors, wait_s)
        try:
            return await self._page(request, at, refusal=refusal)
        except NotFound:
            raise error from None

    async def _page(
        self,
        request: ApiRequest,
        at: Mapping[str, UUID],
        context: Mapping[str, Any] | None = None,
        *,
        refusal: Refusal | None = None,
    ) -> HttpResponse:
        held = await self.held(("mfa",) if self.proved else ("me",))
        template, shown = await self.content(request, **at)
        errors, typed = (refusal.errors, _typed(request)) if refusal else ({}, {})
        act = refusal.act if refusal else ""
        everything = {
            **held,
            **self.told,
            "slug": SECTION,
            "title": acts.ROWS[SECTION].title,
            "form": form_token(request),
            "longest_name": names.MAX_LENGTH,
            "proof": await self.proof(request, held.get("mfa")) if self.proved else {},
            "refusal": refusal,
            "errors": {**errors, act: errors},  # by form, since several have a field of one name; proofs stand in one
            "typed": {act: typed},
            **shown,
            **(context or {}),
        }
        headers = {"Retry-After": refusal.wait_s} if refusal and refusal.wait_s else {}
        return rendered(template, everything, status=refusal.status if refusal else 200, headers=headers)

    async def content(self, request: ApiRequest, **at: UUID) -> tuple[str, dict[str, Any]]:
        """Return the template of the page, and what it shows. Raises ``NotFound`` where there is nothing."""
        raise NotImplementedError


#: What proves again who somebody is, where nothing but that is asked for.
PROVE: Final = acts.Act("POST", "step-up", recent=ALWAYS)


class OrganizationsPage(OrganizationPage):
    """GET, POST /account/security/organizations."""

    acts = {"create": "create", "accept": "accept", "decline": "decline"}

    async def content(self, request: ApiRequest, **at: UUID) -> tuple[str, dict[str, Any]]:
        """Return the person's organisations, and the invitations that wait for them."""
        person = signed_in(request).id
        return SECTION, {
            "organizations": [_shown(row) for row in await services.memberships_of(user_id=person)],
            "offers": [
                {**one._asdict(), "role": _word(one.role)} for one in await database().read(offers.waiting_for, person)
            ],
            "may_create": settings.IRONAUTH_ORGANIZATIONS == "anybody",
        }

    async def create(self, request: ApiRequest, person: UUID) -> str:
        """Make an organisation, and go to its page; the second of two clicks makes no other one."""
        data = await self.validated(request, OrganizationInput)
        click = second_clicks.click_of(request)
        return address_of(await services.make_by_click(user_id=person, name=data["name"], click=click))

    async def accept(self, request: ApiRequest, person: UUID) -> str:
        """Become a member, and go to the page of the organisation."""
        data = await self.validated(request, ItemForm)
        try:
            joined = await database().write(offers.accept, user_id=person, invitation_id=data["item"])
        except IntegrityError as error:  # staff have made them a member at this moment
            raise AlreadyMember from error
        get_logger().info("organization_joined", organization=str(joined.organization_id), user_id=str(person))
        self.led_to = joined.organization_id
        return address_of(self.led_to)

    async def decline(self, request: ApiRequest, person: UUID) -> str:
        """End an invitation, and stay here."""
        data = await self.validated(request, ItemForm)
        await database().write(offers.decline, user_id=person, invitation_id=data["item"])
        get_logger().info("member_invitation_declined", invitation=str(data["item"]), user_id=str(person))
        return row_address(SECTION)


class OneOrganizationPage(OrganizationPage):
    """GET, POST /account/security/organizations/<id>."""

    acts = {
        "leave": "leave",
        "rename": "rename",
        "invite": "invite",
        "withdraw": "withdraw",
    }
    proved = frozenset({"invite"})

    async def content(self, request: ApiRequest, **at: UUID) -> tuple[str, dict[str, Any]]:
        """Return what the person may see of the organisation, by their role there."""
        whose = {"actor_id": signed_in(request).id, "organization_id": at["organization_id"]}
        mine = await services.membership(user_id=signed_in(request).id, organization_id=at["organization_id"])
        may = {right.value: roles.may(mine.role, right) for right in Right}
        may["leave"] = mine.role != Role.OWNER or await database().read(
            queries.has_other_owner, at["organization_id"], than=signed_in(request).id
        )
        shown: dict[str, Any] = {"organization": _shown(mine), "may": may, "roles": _given_by(mine)}
        shown["me_id"] = signed_in(request).id
        if may[Right.SEE_MEMBERS]:
            cursor = request.query_params.get("cursor", "")
            page = await services.members(**whose, filters={"cursor": cursor, "page_size": PAGE_SIZE})
            shown["members"] = [_member(one, mine) for one in page.rows]
            shown["next"], shown["previous"] = page.next, page.previous
        if may[Right.INVITE]:
            waiting = await services.waiting_invitations(**whose)
            shown["invitations"] = [
                {"id": one.id, "email": one.email, "role": _word(one.role), "expires_at": one.expires_at}
                for one in waiting
            ]
        return "organization", shown

    async def leave(self, request: ApiRequest, person: UUID, organization_id: UUID) -> str:
        """End one's own membership."""
        await services.leave(user_id=person, organization_id=organization_id)
        return row_address(SECTION)

    async def rename(self, request: ApiRequest, person: UUID, organization_id: UUID) -> str:
        """Give it another name."""
        data = await self.validated(request, OrganizationInput)
        await services.rename_organization(actor_id=person, organization_id=organization_id, name=data["name"])
        return address_of(organization_id)

    async def invite(self, request: ApiRequest, person: UUID, organization_id: UUID) -> str:
        """Have a message sent that invites an address."""
        data = await self.validated(request, MemberInvitationInput)
        given = {"address": data["email"], "role": data["role"], "client_address": client_context.address_of(request)}
        await services.invite(actor_id=person, organization_id=organization_id, **given)
        return address_of(organization_id)

    async def withdraw(self, request: ApiRequest, person: UUID, organization_id: UUID) -> str:
        """End an invitation."""
        data = await self.validated(request, ItemForm)
        await services.withdraw(actor_id=person, organization_id=organization_id, invitation_id=data["item"])
        return address_of(organization_id)


class DeletePage(OrganizationPage):
    """GET, POST /account/security/organizations/<id>/delete."""

    acts = {"delete": "remove"}
    proved = frozenset({"delete"})

    async def content(self, request: ApiRequest, **at: UUID) -> tuple[str, dict[str, Any]]:
        """Return the organisation, to who may delete it."""
        mine = await services.membership(user_id=signed_in(request).id, organization_id=at["organization_id"])
        if not roles.may(mine.role, Right.DELETE):
            raise NotFound
        return "organization_delete", {"organization": _shown(mine)}

    async def remove(self, request: ApiRequest, person: UUID, organization_id: UUID) -> str:
        """Delete it."""
        await services.delete_organization(actor_id=person, organization_id=organization_id)
        return row_address(SECTION)


class MemberPage(OrganizationPage):
    """GET, POST /account/security/organizations/<id>/members/<id>."""

    acts = {"role": "change", "remove": "remove"}
    proved = frozenset({"role", "remove"})

    async def content(self, request: ApiRequest, **at: UUID) -> tuple[str, dict[str, Any]]:
        """Return the member, for those who decide about them."""
        person, organization_id = signed_in(request).id, at["organization_id"]
        mine = await services.membership(user_id=person, organization_id=organization_id)
        member = await database().read(offers.member, actor_id=person, **at)
        if member.id == person or not roles.is_over(mine.role, member.role):
            raise NotFound
        return "organization_member", {
            "organization": _shown(mine),
            "member": _member(member, mine),
            "roles": _given_by(mine),
        }

    async def change(self, request: ApiRequest, person: UUID, organization_id: UUID, user_id: UUID) -> str:
        """Give the member another role."""
        data = await self.validated(request, MemberRoleInput)
        whose = {"organization_id": organization_id, "user_id": user_id}
        await services.set_role(actor_id=person, role=data["role"], **whose)
        return address_of(organization_id)

    async def remove(self, request: ApiRequest, person: UUID, organization_id: UUID, user_id: UUID) -> str:
        """End the membership."""
        await services.remove_member(actor_id=person, organization_id=organization_id, user_id=user_id)
        return address_of(organization_id)


def address_of(organization_id: UUID) -> str:
    """Return the address of an organisation's page."""
    return reverse("email-pages:organization-page", kwargs={"organization_id": organization_id})


def _typed(request: ApiRequest) -> dict[str, str]:
    """Return what was typed, to be shown again."""
    return {name: str(request.data.get(name, "")) for name in ("name", "email", "role")}


def _word(role: str) -> str:
    """Return what a role is called; one of another release, which allows nothing here, as it is."""
    return ROLES.get(role, role)


def _shown(row: MembershipRow) -> dict[str, Any]:
    """Return a membership as a template sees it, its role in words."""
    return {"id": row.organization_id, "name": row.name, "slug": row.slug, "role": _word(row.role)}


def _given_by(mine: MembershipRow) -> list[tuple[str, str]]:
    """Return the roles that a member may give, with what they are called, the least first."""
    return [(role.value, ROLES[role]) for role in reversed(Role) if roles.is_over(mine.role, role)]


def _member(row: Any, mine: MembershipRow) -> dict[str, Any]:
    """Return a member as a template sees them, and whether the person decides about them."""
    return {
        "id": row.id,
        "email": row.email,
        "name": row.name,
        "role": _word(row.role),
        "has": row.role,
        "since": row.since,
        "in_reach": roles.is_over(mine.role, row.role),
    }
