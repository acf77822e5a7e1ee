"""What the admin shows of this application: importing it registers every page (``app``)."""

from accounts.admin import audit_trail as audit
from accounts.admin import roles, users
from accounts.invitations import admin as invitations
from accounts.outbox import admin as outbox
from accounts.privacy import admin as privacy

__all__ = ["audit", "invitations", "outbox", "privacy", "roles", "users"]
