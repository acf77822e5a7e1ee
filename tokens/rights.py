"""Rights of staff and machines over what tokens are made by, beside those over people (`accounts.access.rights`)."""

from typing import Final

#: Rights over OAuth clients.
VIEW_CLIENTS: Final = "tokens.view_oauthclient"
ADD_CLIENTS: Final = "tokens.add_oauthclient"
CHANGE_CLIENTS: Final = "tokens.change_oauthclient"
DELETE_CLIENTS: Final = "tokens.delete_oauthclient"
#: Rights over registered APIs.
VIEW_RESOURCES: Final = "tokens.view_apiresource"
ADD_RESOURCES: Final = "tokens.add_apiresource"
CHANGE_RESOURCES: Final = "tokens.change_apiresource"
DELETE_RESOURCES: Final = "tokens.delete_apiresource"
#: Rights over types of authorization details.
VIEW_DETAIL_TYPES: Final = "tokens.view_detailtype"
ADD_DETAIL_TYPES: Final = "tokens.add_detailtype"
CHANGE_DETAIL_TYPES: Final = "tokens.change_detailtype"
DELETE_DETAIL_TYPES: Final = "tokens.delete_detailtype"
#: Rights over signing keys. There is none to delete one: a key ends when what it signed has ended.
VIEW_KEYS: Final = "tokens.view_signingkey"
CHANGE_KEYS: Final = "tokens.change_signingkey"
#: Rights over what people have allowed clients.
VIEW_CONSENTS: Final = "tokens.view_consent"
DELETE_CONSENTS: Final = "tokens.delete_consent"
#: Rights over single sessions: to see the figures of all, and to end one.
VIEW_SESSIONS: Final = "tokens.view_session"
DELETE_SESSIONS: Final = "tokens.delete_session"
