"""What the admin shows of this application: importing it registers every page (``accounts.admin.app``)."""

from tokens.admin import clients, consents, keys, providers, sessions, sign_in_as, start
from tokens.clients.dynamic import admin as registration_tokens
from tokens.details import admin as detail_types
from tokens.resources import admin as resources

__all__ = [
    "clients",
    "consents",
    "detail_types",
    "keys",
    "providers",
    "registration_tokens",
    "resources",
    "sessions",
    "sign_in_as",
    "start",
]
