"""What can go wrong with an account; codes are part of the HTTP contract."""

from django.utils.translation import gettext_noop as _

from ironauth.infrastructure.core import errors


class EmailTaken(errors.Conflict):
    """409: another account has this address (compared folded)."""

    code = "email_taken"
    title = "E-mail address taken"
    detail = _("An account with this e-mail address exists already: sign in, or use another address.")


class SignUpClosed(errors.PermissionDenied):
    """403: nobody may make an account here (IRONAUTH_SIGN_UP)."""

    code = "sign_up_closed"
    title = "Sign-up is closed"
    detail = _("New accounts are made by the staff of this service: ask them for one.")


class InvalidEmailCode(errors.NotAuthenticated):
    """401: the code is wrong, has expired, was used, was typed wrong too often, or was made for nobody."""

    code = "invalid_email_code"
    title = "Invalid code"
    detail = _("The code is wrong or no longer works: check it, or ask for a new message.")


class EmailCodeNotOffered(errors.Conflict):
    """409: no act takes a code, for no address is proved or there is something better (``email.code_method``)."""

    code = "email_code_not_offered"
    title = "No code by e-mail"
    detail = _("A code by e-mail does not do for this account: use your password or another of your ways to sign in.")


class InvalidCredentials(errors.NotAuthenticated):
    """401: unknown address, wrong password, inactive account, or one whose address has to be proved first.

    Deliberately the same for all of them. Where addresses have to be proved, ``detail_where_proof_is_required`` is the
    detail for all of them.
    """

    code = "invalid_credentials"
    title = "Invalid credentials"
    detail = _("The e-mail address or the password is wrong: check both and try again.")
    detail_where_proof_is_required = _(
        "The e-mail address or the password is wrong, or the address is not confirmed yet: check both. If you have "
        "just signed up, open the link in the message first, or ask for a new one."
    )


class EmailNotVerified(errors.PermissionDenied):
    """403: the passkey is right, and the address has to be verified first. No answer to a password says it."""

    code = "email_not_verified"
    title = "E-mail address not verified"
    detail = _("Confirm your e-mail address first: open the link in the message, or ask for a new one.")


class StepUpRequired(errors.NotAuthenticated):
    """401: the session is good, and this needs a proof of who is there that is not older than ``max_age_s`` seconds."""

    code = "step_up_required"
    title = "Proof needed again"
    detail = (
        "Prove again who you are first, with your password or, if you have one, your second factor: "
        "POST /api/v1/access/step-up."
    )

    def __init__(self, *, max_age_s: int) -> None:
        challenge = f'{errors.BEARER_CHALLENGE}, error="insufficient_user_authentication", max_age="{max_age_s}"'
        super().__init__(headers={"WWW-Authenticate": challenge})  # RFC 9470 §3


class MfaEnrolmentRequired(errors.PermissionDenied):
    """403: staff work only in sessions that a second factor has opened or confirmed (IRONAUTH_STAFF_MFA)."""

    code = "mfa_enrolment_required"
    title = "Second factor required"
    detail = (
        "Staff need a second factor here: set one up (POST /api/v1/access/mfa/totp), then sign in with it, or "
        "confirm this session with it (POST /api/v1/access/step-up)."
    )


class PasswordChangeRequired(errors.PermissionDenied):
    """403: the password is right, and staff have asked for another one."""

    code = "password_change_required"
    title = "Password change required"
    detail = _(
        "Choose a new password first: open the link in the message, or ask for one as if you had forgotten yours."
    )


class InvalidEmailToken(errors.BadRequest):
    """400: the token of a message is none of ours, for something else, expired, used, or replaced by a newer one."""

    code = "invalid_token"
    title = "Invalid token"
    detail = _("The link is invalid, has expired or was used before: ask for a new one.")


class LastSuperuser(errors.Conflict):
    """409: the change would leave no active superuser."""

    code = "last_superuser"
    title = "Last superuser"
    detail = "This is the last active superuser: make another one first (manage.py createsuperuser)."


class LastWayIn(errors.Conflict):
    """409: without this passkey or identity the person could not sign in any more."""

    code = "last_way_in"
    title = "The last way to sign in"
    detail = _("Set a password or add another way to sign in first: without this one you could not sign in any more.")


class UserProtected(errors.Conflict):
    """409: rows that must not be without this account refer to it."""

    code = "user_protected"
    title = "Account is referred to"
    detail = (
        "Rows of another application refer to this account and forbid its deletion: remove them there first, or "
        "deactivate the account."
    )


class DeletionPending(errors.Conflict):
    """409: the owner has deleted the account, and may still take that back."""

    code = "deletion_pending"
    title = "Account is being deleted"
    detail = "The owner has deleted this account: restore it first (in the admin), or delete it for good."


class RoleExists(errors.Conflict):
    """409: a role of this name exists."""

    code = "role_taken"
    title = "Role exists"
    detail = "A role with this name exists already: use it, or choose another name."


class RoleProtected(errors.Conflict):
    """409: rows that must not be without this role refer to it."""

    code = "role_protected"
    title = "Role is referred to"
    detail = "Rows of another application refer to this role and forbid its deletion: remove them there first."


class PasswordChanged(errors.Conflict):
    """409: the password was changed by someone else while this request was hashing."""

    code = "password_changed"
    title = "Password changed meanwhile"
    detail = _("The password was changed by another request at the same time: sign in with the new one.")


class NothingToDo(errors.Conflict):
    """The act would change nothing about this account, or it is being deleted."""

    code = "nothing_to_do"
    title = "Nothing to do"
    detail = "This act would change nothing about this account as it is now, or the account is being deleted."
