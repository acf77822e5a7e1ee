"""The tables of this application, where Django looks for them. Each is defined in its room."""

from accounts.audit.models import AuditEvent
from accounts.federation.models import Identity, KeptTokens, UpstreamProvider, UpstreamSignIn
from accounts.invitations.models import Invitation
from accounts.mfa.kept_devices.models import KeptDevice
from accounts.mfa.passkeys.models import Passkey
from accounts.mfa.recovery.models import RecoveryCode
from accounts.mfa.totp.models import TotpFactor
from accounts.organizations.models import Membership, Organization
from accounts.privacy.models import PendingDeletion
from accounts.transfer.models import ImportedUser, LeftAddress, UserImport
from accounts.users.models import Role, User

__all__ = [
    "AuditEvent",
    "Identity",
    "ImportedUser",
    "Invitation",
    "KeptDevice",
    "KeptTokens",
    "LeftAddress",
    "Membership",
    "Organization",
    "Passkey",
    "PendingDeletion",
    "RecoveryCode",
    "Role",
    "TotpFactor",
    "UpstreamProvider",
    "UpstreamSignIn",
    "User",
    "UserImport",
]
