"""What can go wrong with an invitation; codes are part of the HTTP contract."""

from django.utils.translation import gettext_noop as _

from ironauth.infrastructure.core import errors


class InvalidInvitation(errors.BadRequest):
    """400: the token of an invitation is none of ours, expired, used, withdrawn, or replaced by a newer one."""

    code = "invalid_invitation"
    title = "Invalid invitation"
    detail = _(
        "This invitation is invalid, has expired, was used before, or was withdrawn. If a newer message came, use its "
        "link; if not, ask the people who invited you."
    )


class InvitationExists(errors.Conflict):
    """409: an invitation to this address waits for an answer."""

    code = "invitation_exists"
    title = "Invitation exists"
    detail = "An invitation to this address waits for an answer: send it again, or withdraw it first."
