"""What the admin shows of this application: importing it registers every page (``accounts.admin.app``)."""

from tokens.admin import clients, consents, keys, sessions, start

__all__ = ["clients", "consents", "keys", "sessions", "start"]
