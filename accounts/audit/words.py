"""What the events of the trail are called where staff read them, by family; other programs read the codes.

The codes are those of ``recording.Event``, spelt out because ``models``, on which that module rests, uses these
words. A test keeps both lists the same.
"""

from collections.abc import Mapping
from typing import Final

FAMILIES: Final[Mapping[str, Mapping[str, str]]] = {
    "Signing in": {
        "sign_up": "Sign-up",
        "sign_in": "Sign-in",
        "second_factor_asked": "Right password, second factor asked for",
        "step_up": "Confirmation of identity",
        "sign_out": "Sign-out",
        "admin_sign_in": "Sign-in to this admin",
        "admin_sign_out": "Sign-out from this admin",
        "throttled": "Tried too often",
        "failures_forgiven": "Failed tries forgiven",
    },
    "Sessions": {
        "sign_out_everywhere": "Sign-out everywhere",
        "session_ended": "Session ended",
        "sessions_ended": "All sessions ended",
        "refresh_reuse": "Old refresh token used again",
    },
    "Passwords": {
        "password_changed": "Password changed",
        "password_reset_requested": "Password reset asked for",
        "password_reset": "Password reset",
        "password_change_required": "Password change required",
        "password_flagged": "Password found in a breach",
        "breached_list_installed": "List of breached passwords installed",
    },
    "E-mail": {
        "verification_requested": "Verification asked for",
        "email_verified": "E-mail address verified",
        "email_change_requested": "Change of e-mail address asked for",
        "email_changed": "E-mail address changed",
        "mail_given_up": "Message given up",
        "mail_retried": "Message tried again",
    },
    "Second factors": {
        "mfa_enabled": "Authenticator app set up",
        "mfa_disabled": "Authenticator app removed",
        "mfa_reset": "All second factors removed",
        "recovery_codes_created": "Recovery codes made",
        "recovery_code_used": "Recovery code used",
        "passkey_added": "Passkey added",
        "passkey_removed": "Passkey removed",
    },
    "Accounts": {
        "profile_changed": "Profile changed",
        "account_deleted": "Account deleted",
        "account_restored": "Account restored",
        "account_purged": "Account deleted for good",
        "data_exported": "Data exported",
    },
    "Staff": {
        "user_created": "User added",
        "user_changed": "User changed",
        "user_deleted": "User deleted",
        "role_given": "Role given",
        "role_taken": "Role taken away",
        "role_created": "Role added",
        "role_changed": "Role changed",
        "role_deleted": "Role deleted",
        "access_denied": "Access denied",
    },
    "Applications": {
        "client_sign_in": "Sign-in to an application",
        "device_allowed": "Device let in",
        "token_exchanged": "Token exchanged",
        "code_reuse": "Authorization code used again",
        "consent_given": "Consent given",
        "consent_revoked": "Consent taken back",
        "client_created": "Client added",
        "client_changed": "Client changed",
        "client_disabled": "Client disabled",
        "client_enabled": "Client enabled",
        "client_deleted": "Client deleted",
        "client_secret_rotated": "New client secret",
    },
    "Keys": {
        "keys_created": "Signing keys made",
        "key_rotated": "Signing key rotated",
        "key_dropped": "Signing key dropped",
        "secrets_resealed": "Stored secrets sealed again",
    },
}
_PHRASES: Final = {code: words for family in FAMILIES.values() for code, words in family.items()}
_OUTCOMES: Final = {"success": "", "failure": ", failed", "refused": ", refused"}


def in_words(code: str) -> str:
    """Return e.g. "Password changed" for ``password_changed``."""
    return code.replace("_", " ").capitalize().replace("Mfa ", "MFA ")


def phrase(event: str) -> str:
    """Return what an event is called; one that another release has recorded, by its code."""
    return _PHRASES.get(event) or in_words(event)


def sentence(event: str, outcome: str) -> str:
    """Return what an event is called, and how it ended unless well."""
    return phrase(event) + _OUTCOMES.get(outcome, f", {outcome}")
