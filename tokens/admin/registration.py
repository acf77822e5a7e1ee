"""What the admin shows of this application: importing it registers every page (``accounts.admin.app``)."""

from tokens.admin import clients, consents, keys, providers, sessions, sign_in_as, start
from tokens.resources import admin as resources

__all__ = ["clients", "consents", "keys", "providers", "resources", "sessions", "sign_in_as", "start"]
