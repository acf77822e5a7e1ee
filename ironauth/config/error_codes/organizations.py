"""Codes about organisations and their members."""

from typing import Final

from ironauth.config.error_codes.code import NOTHING, ErrorCode

ORGANIZATIONS: Final[tuple[ErrorCode, ...]] = (
    ErrorCode("organizations_by_staff", (403,),
        "Staff make the organizations here.",
        "Ask staff for one.",
        "IRONAUTH_ORGANIZATIONS=anybody lets everybody with an account make some."),
    ErrorCode("last_owner", (409,),
        "The organization would have no active owner any more.",
        "Make another member an owner first, or delete the organization.",
        "Give another member the role of owner, on the page of the organization in the admin."),
    ErrorCode("sole_owner", (409,),
        "The account is the only active owner of an organization that has other members.",
        "Make another member an owner first, or delete the organization.",
        "Give another member the role of owner, on the page of the organization in the admin."),
    ErrorCode("already_member", (409,),
        "The person is a member of the organization already.",
        "Nothing needs to be done. Another role is given by a change of the member.",
        NOTHING),
    ErrorCode("invitation_of_another", (403,),
        "The invitation is to another e-mail address than that of the account.",
        "Sign in with the account that has the invited address.",
        NOTHING),
    ErrorCode("too_many_organizations", (409,),
        "The account owns, or is a member of, as many organizations as one may.",
        "Leave or delete one first.",
        NOTHING),
    ErrorCode("too_many_members", (409,),
        "The organization has as many members, or invitations that wait, as one may have.",
        "Remove a member or withdraw an invitation first.",
        NOTHING),
)  # fmt: skip
