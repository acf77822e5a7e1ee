"""The events of the trail: what other programs call each, its family, and its words where staff read it.

A new event is one line of ``Event``.
"""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Self


class Family(enum.StrEnum):
    """What events are listed under, in this order."""

    SIGNING_IN = "Signing in"
    SESSIONS = "Sessions"
    PASSWORDS = "Passwords"
    EMAIL = "E-mail"
    SECOND_FACTORS = "Second factors"
    ACCOUNTS = "Accounts"
    ORGANIZATIONS = "Organizations"
    STAFF = "Staff"
    APPLICATIONS = "Applications"
    KEYS = "Keys"


class Event(enum.StrEnum):
    """What happened: code, family and words. Codes are for other programs and never change their meaning."""

    family: Family
    words: str

    def __new__(cls, code: str, family: Family, words: str) -> Self:
        """Make the event of this code."""
        event = str.__new__(cls, code)
        event._value_ = code
        event.family, event.words = family, words
        return event

    SIGN_UP = "sign_up", Family.SIGNING_IN, "Sign-up"
    # By staff: somebody was asked to make an account; and what came of it.
    INVITATION_MADE = "invitation_made", Family.STAFF, "Invitation made"
    INVITATION_SENT_AGAIN = "invitation_sent_again", Family.STAFF, "Invitation sent again"
    INVITATION_WITHDRAWN = "invitation_withdrawn", Family.STAFF, "Invitation withdrawn"
    # An account was made of it: there is no SIGN_UP beside.
    INVITATION_ACCEPTED = "invitation_accepted", Family.SIGNING_IN, "Sign-up by invitation"
    # By the holder of the link, who has no account.
    INVITATION_DECLINED = "invitation_declined", Family.SIGNING_IN, "Invitation declined"
    SIGN_IN = "sign_in", Family.SIGNING_IN, "Sign-in"
    # A session that goes on from another one of the same browser: nobody signed in, and nothing was proved anew.
    SESSION_CONTINUED = "session_continued", Family.SESSIONS, "Session gone on from another one"
    # A right password, and nothing open yet: a sign-in follows, or does not.
    SECOND_FACTOR_ASKED = "second_factor_asked", Family.SIGNING_IN, "Right password, second factor asked for"
    # Without user: for an unknown address.
    SIGN_IN_CODE_REQUESTED = "sign_in_code_requested", Family.SIGNING_IN, "Sign-in code asked for"
    CONFIRMATION_CODE_REQUESTED = "confirmation_code_requested", Family.SIGNING_IN, "Code to confirm an act asked for"
    SIGN_OUT = "sign_out", Family.SIGNING_IN, "Sign-out"
    SIGN_OUT_EVERYWHERE = "sign_out_everywhere", Family.SESSIONS, "Sign-out everywhere"
    # An old refresh token was used again, and its session has been ended for it.
    REFRESH_REUSE = "refresh_reuse", Family.SESSIONS, "Old refresh token used again"
    # An application got tokens for a person; each of its refreshes is no event.
    CLIENT_SIGN_IN = "client_sign_in", Family.APPLICATIONS, "Sign-in to an application"
    # A person let a device in, whose tokens it fetches itself (CLIENT_SIGN_IN).
    DEVICE_ALLOWED = "device_allowed", Family.APPLICATIONS, "Device let in"
    # A client got a token to act for a person.
    TOKEN_EXCHANGED = "token_exchanged", Family.APPLICATIONS, "Token exchanged"
    # An authorization code was used again, and the session of its first use ended for it.
    CODE_REUSE = "code_reuse", Family.APPLICATIONS, "Authorization code used again"
    # A browser on which the second factor is not asked for, and its end.
    DEVICE_KEPT = "device_kept", Family.SIGNING_IN, "Device kept"
    DEVICE_FORGOTTEN = "device_forgotten", Family.SIGNING_IN, "Device kept no longer"
    SESSION_ENDED = "session_ended", Family.SESSIONS, "Session ended"
    # All of one person, by staff.
    SESSIONS_ENDED = "sessions_ended", Family.SESSIONS, "All sessions ended"
    # Of all people, by staff or by a command.
    EVERYBODYS_SESSIONS_ENDED = "everybodys_sessions_ended", Family.SESSIONS, "Everybody's sessions ended"
    PASSWORD_CHANGED = "password_changed", Family.PASSWORDS, "Password changed"
    # Without user: for an unknown address.
    PASSWORD_RESET_REQUESTED = "password_reset_requested", Family.PASSWORDS, "Password reset asked for"
    PASSWORD_RESET = "password_reset", Family.PASSWORDS, "Password reset"
    # By staff.
    PASSWORD_CHANGE_REQUIRED = "password_change_required", Family.PASSWORDS, "Password change required"
    # The one in use was found in the list of breached ones.
    PASSWORD_FLAGGED = "password_flagged", Family.PASSWORDS, "Password found in a breach"
    # Without user: for an unknown or verified address.
    VERIFICATION_REQUESTED = "verification_requested", Family.EMAIL, "Verification asked for"
    EMAIL_VERIFIED = "email_verified", Family.EMAIL, "E-mail address verified"
    EMAIL_CHANGE_REQUESTED = "email_change_requested", Family.EMAIL, "Change of e-mail address asked for"
    EMAIL_CHANGED = "email_changed", Family.EMAIL, "E-mail address changed"
    MAIL_GIVEN_UP = "mail_given_up", Family.EMAIL, "Message given up"
    # Staff had a message tried again.
    MAIL_RETRIED = "mail_retried", Family.EMAIL, "Message tried again"
    MFA_ENABLED = "mfa_enabled", Family.SECOND_FACTORS, "Authenticator app set up"
    MFA_DISABLED = "mfa_disabled", Family.SECOND_FACTORS, "Authenticator app removed"
    # Every factor is gone: by staff.
    MFA_RESET = "mfa_reset", Family.SECOND_FACTORS, "All second factors removed"
    RECOVERY_CODES_CREATED = "recovery_codes_created", Family.SECOND_FACTORS, "Recovery codes made"
    RECOVERY_CODE_USED = "recovery_code_used", Family.SECOND_FACTORS, "Recovery code used"
    PASSKEY_ADDED = "passkey_added", Family.SECOND_FACTORS, "Passkey added"
    PASSKEY_REMOVED = "passkey_removed", Family.SECOND_FACTORS, "Passkey removed"
    IDENTITY_LINKED = "identity_linked", Family.SIGNING_IN, "Identity at another provider linked"
    IDENTITY_UNLINKED = "identity_unlinked", Family.SIGNING_IN, "Identity at another provider removed"
    PROVIDER_CHANGED = "provider_changed", Family.STAFF, "Sign-in provider added, changed or deleted"
    # A whole sign-in there by staff, that signs nobody in; with ``cause`` where something did not hold.
    PROVIDER_TRIED = "provider_tried", Family.STAFF, "Sign-in provider tried"
    # To a service of the operator, of one person; a failure where the provider has ended the access.
    PROVIDER_TOKEN_GIVEN = "provider_token_given", Family.APPLICATIONS, "Access at another provider used"
    STEP_UP = "step_up", Family.SIGNING_IN, "Confirmation of identity"
    PROFILE_CHANGED = "profile_changed", Family.ACCOUNTS, "Profile changed"
    # By the person or, ``disowned``, by the owner of the mailbox; staff leave USER_DELETED.
    ACCOUNT_DELETED = "account_deleted", Family.ACCOUNTS, "Account deleted"
    # Within the days of grace.
    ACCOUNT_RESTORED = "account_restored", Family.ACCOUNTS, "Account restored"
    # After them, for good.
    ACCOUNT_PURGED = "account_purged", Family.ACCOUNTS, "Account deleted for good"
    DATA_EXPORTED = "data_exported", Family.ACCOUNTS, "Data exported"
    # By a command: people of another system, and taken back; and everybody written to a file.
    USERS_IMPORTED = "users_imported", Family.STAFF, "People imported"
    IMPORT_UNDONE = "import_undone", Family.STAFF, "Import undone"
    # At the first sign-in, whose password the old system has judged: a SIGN_IN follows.
    USER_MOVED_IN = "user_moved_in", Family.SIGNING_IN, "Moved in from the old system"
    USERS_EXPORTED = "users_exported", Family.STAFF, "Everybody exported"
    USER_CREATED = "user_created", Family.STAFF, "User added"
    USER_CHANGED = "user_changed", Family.STAFF, "User changed"
    USER_DELETED = "user_deleted", Family.STAFF, "User deleted"
    ROLE_GIVEN = "role_given", Family.STAFF, "Role given"
    ROLE_TAKEN = "role_taken", Family.STAFF, "Role taken away"
    ROLE_CREATED = "role_created", Family.STAFF, "Role added"
    ROLE_CHANGED = "role_changed", Family.STAFF, "Role changed"
    ROLE_DELETED = "role_deleted", Family.STAFF, "Role deleted"
    ADMIN_SIGN_IN = "admin_sign_in", Family.SIGNING_IN, "Sign-in to this admin"
    ADMIN_SIGN_OUT = "admin_sign_out", Family.SIGNING_IN, "Sign-out from this admin"
    # Somebody signed in asked the staff API, or the admin, for what they may not.
    ACCESS_DENIED = "access_denied", Family.STAFF, "Access denied"
    # For support, with the reason; and its end before its time.
    SIGN_IN_AS = "sign_in_as", Family.STAFF, "Signed in as a person"
    SIGN_IN_AS_ENDED = "sign_in_as_ended", Family.STAFF, "Signed in as a person, ended"
    # With the filters and the format of the export.
    AUDIT_EXPORTED = "audit_exported", Family.STAFF, "Audit trail exported"
    # Tried too often: at most once an hour for each count and process.
    THROTTLED = "throttled", Family.SIGNING_IN, "Tried too often"
    # An operator let somebody in again.
    FAILURES_FORGIVEN = "failures_forgiven", Family.SIGNING_IN, "Failed tries forgiven"
    KEYS_CREATED = "keys_created", Family.KEYS, "Signing keys made"
    KEY_ROTATED = "key_rotated", Family.KEYS, "Signing key rotated"
    KEY_DROPPED = "key_dropped", Family.KEYS, "Signing key dropped"
    # Those of second factors, under the newest master key.
    SECRETS_RESEALED = "secrets_resealed", Family.KEYS, "Stored secrets sealed again"
    BREACHED_LIST_INSTALLED = "breached_list_installed", Family.PASSWORDS, "List of breached passwords installed"
    # An application that signs its users in here.
    CLIENT_CREATED = "client_created", Family.APPLICATIONS, "Client added"
    CLIENT_CHANGED = "client_changed", Family.APPLICATIONS, "Client changed"
    CLIENT_DISABLED = "client_disabled", Family.APPLICATIONS, "Client disabled"
    CLIENT_ENABLED = "client_enabled", Family.APPLICATIONS, "Client enabled"
    RESOURCE_CREATED = "resource_created", Family.APPLICATIONS, "API registered"
    RESOURCE_CHANGED = "resource_changed", Family.APPLICATIONS, "API changed"
    RESOURCE_DELETED = "resource_deleted", Family.APPLICATIONS, "API deleted"
    DETAIL_TYPE_CREATED = "detail_type_created", Family.APPLICATIONS, "Type of authorization details registered"
    DETAIL_TYPE_CHANGED = "detail_type_changed", Family.APPLICATIONS, "Type of authorization details changed"
    DETAIL_TYPE_DELETED = "detail_type_deleted", Family.APPLICATIONS, "Type of authorization details deleted"
    CLIENT_DELETED = "client_deleted", Family.APPLICATIONS, "Client deleted"
    CLIENT_SECRET_ROTATED = "client_secret_rotated", Family.APPLICATIONS, "New client secret"
    # By itself, without staff: by a request (RFC 7591), or at the first consent to what its document describes.
    CLIENT_REGISTERED = "client_registered", Family.APPLICATIONS, "Client registered itself"
    CLIENT_VERIFIED = "client_verified", Family.APPLICATIONS, "Client verified by staff"
    # Unverified, and not used for long.
    CLIENT_EXPIRED = "client_expired", Family.APPLICATIONS, "Unused client deleted"
    # With it somebody may register some clients.
    REGISTRATION_TOKEN_MADE = "registration_token_made", Family.APPLICATIONS, "Registration token made"
    REGISTRATION_TOKEN_ENDED = "registration_token_ended", Family.APPLICATIONS, "Registration token ended"
    # By people, or by staff. Who becomes a member with the account leaves INVITATION_ACCEPTED.
    ORGANIZATION_CREATED = "organization_created", Family.ORGANIZATIONS, "Organization made"
    ORGANIZATION_RENAMED = "organization_renamed", Family.ORGANIZATIONS, "Organization renamed"
    ORGANIZATION_DELETED = "organization_deleted", Family.ORGANIZATIONS, "Organization deleted"
    ORGANIZATION_JOINED = "organization_joined", Family.ORGANIZATIONS, "Organization joined by invitation"
    ORGANIZATION_LEFT = "organization_left", Family.ORGANIZATIONS, "Organization left"
    MEMBER_INVITED = "member_invited", Family.ORGANIZATIONS, "Invited to an organization"
    MEMBER_INVITATION_WITHDRAWN = (
        "member_invitation_withdrawn", Family.ORGANIZATIONS, "Invitation to an organization withdrawn",
    )  # fmt: skip
    MEMBER_INVITATION_DECLINED = (
        "member_invitation_declined", Family.ORGANIZATIONS, "Invitation to an organization declined",
    )  # fmt: skip
    MEMBER_ADDED = "member_added", Family.ORGANIZATIONS, "Member added by staff"
    MEMBER_ROLE_CHANGED = "member_role_changed", Family.ORGANIZATIONS, "Role of a member changed"
    MEMBER_REMOVED = "member_removed", Family.ORGANIZATIONS, "Member removed"
    # A person let an application have what it asked for.
    CONSENT_GIVEN = "consent_given", Family.APPLICATIONS, "Consent given"
    # By the person, or by staff.
    CONSENT_REVOKED = "consent_revoked", Family.APPLICATIONS, "Consent taken back"


class Outcome(enum.StrEnum):
    """How it ended. FAILURE: a proof was wrong, or a message was not accepted.

    REFUSED: the proof was right, or needless, and a rule forbade it.
    """

    SUCCESS = "success"
    FAILURE = "failure"
    REFUSED = "refused"


class Reason(enum.StrEnum):
    """Why a sign-in failed, in the details of its event: for staff alone, since the answers are all the same."""

    NO_ACCOUNT = "no_account"
    WRONG_PASSWORD = "wrong_password"  # noqa: S105 - a code
    NO_PASSWORD = "no_password"  # noqa: S105 - a code
    WRONG_CODE = "wrong_code"
    # While people move here from an old system: it refused the password, did not say, or was not asked, because an
    # account here had the address before; or it named somebody who is here under another address.
    OLD_SYSTEM_REFUSED = "old_system_refused"
    OLD_SYSTEM_UNAVAILABLE = "old_system_unavailable"
    WAS_HERE = "was_here"
    HERE_BY_ANOTHER_ADDRESS = "here_by_another_address"
    DEACTIVATED = "deactivated"
    ADDRESS_NOT_CONFIRMED = "address_not_confirmed"
    # With ``provider``, its short name, and ``cause``, the part of its answer that did not hold.
    PROVIDER_REFUSED = "provider_refused"


#: Why a proof failed, which the answer tells too: codes of its error, with the words for staff.
ANSWERED_REASONS: Final = {
    "invalid_mfa_code": "Wrong code of the second factor", "invalid_passkey": "Passkey not accepted",
}  # fmt: skip
#: Every cause of a failure that staff filter by.
REASONS: Final = {**{one.value: one.value.replace("_", " ").capitalize() for one in Reason}, **ANSWERED_REASONS}
#: The events of each family, code by code with their words.
FAMILIES: Final = {
    family.value: {event.value: event.words for event in Event if event.family is family} for family in Family
}
_WORDS: Final = {event.value: event.words for event in Event}
#: What a change of an account's column to yes or to no means.
_CHANGES: Final = {
    "is_active": ("activated", "deactivated"),
    "is_staff": ("made staff", "staff no more"),
    "is_superuser": ("made a superuser", "superuser no more"),
    "email_verified": ("address verified", "address not verified"),
    "must_change_password": ("password to be changed", "password accepted"),
}
_FIELDS: Final = {"groups": "roles", "user_permissions": "permissions", "email_verified_at": "email_verified"}
_OUTCOMES: Final = {"success": "", "failure": ", failed", "refused": ", refused"}


def in_words(code: str) -> str:
    """Return e.g. "Password changed" for ``password_changed``."""
    return code.replace("_", " ").capitalize().replace("Mfa ", "MFA ")


def phrase(event: str) -> str:
    """Return what an event is called; one that another release has recorded, by its code."""
    return _WORDS.get(event) or in_words(event)


def told(event: str, details: Mapping[str, Any]) -> str:
    """Return what happened: what an event is called, and of an account that was changed also what was changed.

    Args:
        event: The code of the event.
        details: Its details.
    """
    if event != Event.USER_CHANGED:
        return phrase(event)
    fields = details.get("fields")
    names = [_FIELDS.get(str(one), str(one)) for one in (fields if isinstance(fields, list) else ())]
    if "roles" not in names and ("roles_given" in details or "roles_taken" in details):
        names.append("roles")
    changes = ", ".join(_change(name, details.get(name)) for name in names)
    return f"{phrase(event)}: {changes}" if changes else phrase(event)


def _change(name: str, value: object) -> str:
    """Return what a change of one field of an account was."""
    if isinstance(value, bool) and name in _CHANGES:
        yes, no = _CHANGES[name]
        return yes if value else no
    return name.replace("_", " ")


def ended(outcome: str, details: Mapping[str, Any]) -> str:
    """Return how something ended, and why, with what a provider or a passkey was refused for.

    Args:
        outcome: The value of an ``Outcome``.
        details: The details of the event.
    """
    return ": ".join([outcome, *(_plain(details[name]) for name in ("reason", "cause") if details.get(name))])


def facts(details: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the details of an event as names and values to read."""
    return [(_plain(name), _fact(name, value)) for name, value in details.items()]


def _fact(name: str, value: object) -> str:
    """Return a value to read; one of a list is what others use, and stays as it is."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return _plain(value) if name in {"reason", "cause"} else str(value)


def _plain(code: object) -> str:
    if words := ANSWERED_REASONS.get(str(code)):
        return words[0].lower() + words[1:]
    return str(code).replace("_", " ").replace("mfa ", "MFA ")


def sentence(event: str, outcome: str, details: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Return what happened, and how it ended unless it succeeded.

    Args:
        event: The code of the event; an unknown one stands for itself.
        outcome: The value of an ``Outcome``.
        details: The details of the event, where they are known.
    """
    return told(event, details) + _OUTCOMES.get(outcome, f", {outcome}")
