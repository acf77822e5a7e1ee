"""What the admin shows of this application: importing it registers every page (``app``)."""

from accounts.admin import audit_trail as audit
from accounts.admin import roles, users, ways_in
from accounts.invitations import admin as invitations
from accounts.mfa.kept_devices import admin as kept_devices
from accounts.organizations import admin as organizations
from accounts.outbox import admin as outbox
from accounts.privacy import admin as privacy

__all__ = ["audit", "invitations", "kept_devices", "organizations", "outbox", "privacy", "roles", "users", "ways_in"]
