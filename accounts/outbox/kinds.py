"""The kinds of messages. A new one is one line here and two templates.

``accounts/mail/<kind>.subject.txt`` and ``.txt``; see ``rendering`` for what they may say.
"""

import enum
from typing import Final, Self

from django.utils.translation import gettext_noop as _

#: What messages say of a network that the server could not see.
UNKNOWN_ADDRESS: Final = _("unknown")


class Kind(enum.StrEnum):
    """What a message is about: its code, and the page its link opens, for one that brings a token.

    The page asks for a click: mail scanners fetch every link.
    """

    page: str

    def __new__(cls, code: str, page: str = "") -> Self:
        """Make the kind of this code."""
        kind = str.__new__(cls, code)
        kind._value_ = code
        kind.page = page
        return kind

    VERIFY_EMAIL = "verify_email", "email-pages:verify"
    SIGN_IN_CODE = "sign_in_code"
    CONFIRMATION_CODE = "confirmation_code"
    CHANGE_EMAIL = "change_email", "email-pages:verify"
    EMAIL_CHANGE_REQUESTED = "email_change_requested"
    EMAIL_CHANGED = "email_changed"
    RESET_PASSWORD = "reset_password", "email-pages:reset"
    CHOOSE_PASSWORD = "choose_password", "email-pages:reset"
    PASSWORD_CHANGED = "password_changed"  # noqa: S105 - a kind of message
    PASSWORD_CHANGE_REQUIRED = "password_change_required", "email-pages:reset"
    PASSWORD_FLAGGED = "password_flagged"  # noqa: S105 - as above
    NEW_DEVICE = "new_device"
    ACCOUNT_EXISTS = "account_exists"
    ACCOUNT_DELETION = "account_deletion", "email-pages:restore"
    INVITATION = "invitation", "email-pages:invitation"
    ORGANIZATION_INVITATION = "organization_invitation", "email-pages:invitation"
    MFA_ENABLED = "mfa_enabled"
    MFA_DISABLED = "mfa_disabled"
    MFA_RESET = "mfa_reset"
    WAY_IN_REMOVED = "way_in_removed", "email-pages:reset"
    SECOND_FACTOR_REFUSED = "second_factor_refused"
    RECOVERY_CODES_CREATED = "recovery_codes_created"
    RECOVERY_CODE_USED = "recovery_code_used"
    PASSKEY_ADDED = "passkey_added"
    PASSKEY_REMOVED = "passkey_removed"
    IDENTITY_LINKED = "identity_linked"
    IDENTITY_UNLINKED = "identity_unlinked"
