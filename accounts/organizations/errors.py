"""What can go wrong with organisations; codes are part of the HTTP contract."""

from django.utils.translation import gettext_noop as _

from ironauth.infrastructure.core import errors


class OrganizationsByStaff(errors.PermissionDenied):
    """403: staff make the organisations here (IRONAUTH_ORGANIZATIONS)."""

    code = "organizations_by_staff"
    title = "Organizations are made by staff"
    detail = _("New organisations are made by the staff of this service: ask them for one.")


class LastOwner(errors.Conflict):
    """409: the organisation would have no active owner any more."""

    code = "last_owner"
    title = "Last owner"
    detail = _("This is the last owner: make another member an owner first, or delete the organisation.")


class SoleOwner(errors.Conflict):
    """409: the account is the only active owner of an organisation that has other members."""

    code = "sole_owner"
    title = "Only owner of an organization"
    detail = _(
        "This account is the only owner of an organisation that has other members: make another member an owner "
        "first, or delete the organisation."
    )


class AlreadyMember(errors.Conflict):
    """409: the person is a member of the organisation."""

    code = "already_member"
    title = "Already a member"
    detail = _("This person is a member of the organisation already.")


class InvitationOfAnother(errors.PermissionDenied):
    """403: the invitation is to another address than that of the account."""

    code = "invitation_of_another"
    title = "Invitation of another"
    detail = _("The invitation is to another e-mail address: sign in with the account that has it.")


class TooManyOrganizations(errors.Conflict):
    """409: the person owns, or is a member of, as many organisations as anybody may."""

    code = "too_many_organizations"
    title = "Too many organizations"
    detail = _("This account has as many organisations as one may have: leave one, or delete one, first.")


class TooManyMembers(errors.Conflict):
    """409: the organisation has as many members, or invitations that wait, as one may have."""

    code = "too_many_members"
    title = "Too many members"
    detail = _("The organisation has as many members or invitations as one may have: remove one first.")
