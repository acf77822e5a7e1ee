"""The Django application of sessions, access tokens and signing keys."""

from django.apps import AppConfig

#: Below it are pages for people, and endpoints for clients; ``tokens.oauth.urls`` has the routes.
OAUTH_PATH = "/oauth/"


class TokensConfig(AppConfig):
    """What proves who a person is; joins the server's start-up so that the first request finds the keys loaded."""

    name = "tokens"
    verbose_name = "Sessions and keys"

    def ready(self) -> None:
        """Have the key set loaded when a server starts, and reloaded when a key changes; connect and register the rest.

        Sessions join the export of personal data. Sign-ins to the admin from a new device are told to their owner.
        Clients are told of logouts, also when all sessions of a person end. Each table has its rule for the first proof
        of an address.
        """
        from accounts.access import rights, ways_in  # noqa: PLC0415 - as below
        from accounts.admin import audit_trail  # noqa: PLC0415 - as below
        from accounts.federation.models import PROVIDERS_TAG  # noqa: PLC0415 - as below
        from accounts.users import invariants  # noqa: PLC0415 - as below
        from ironauth.infrastructure.cache.invalidation import invalidation_feed  # noqa: PLC0415 - as below
        from ironauth.infrastructure.core.lifecycle import on_shutdown, on_startup  # noqa: PLC0415 - as below
        from ironauth.infrastructure.http import client_context, error_pages  # noqa: PLC0415 - as below
        from tokens import registration  # noqa: PLC0415 - as below
        from tokens.access import openapi as _openapi  # noqa: F401, PLC0415 - drf-spectacular finds its class
        from tokens.admin import devices as admin_devices  # noqa: PLC0415 - as below
        from tokens.clients import queries as client_queries  # noqa: PLC0415 - as above
        from tokens.clients.fetched import fetching as client_fetching  # noqa: PLC0415 - as above
        from tokens.keys import units as key_rotation  # noqa: PLC0415 - as above
        from tokens.keys.store import key_store, load_at_startup  # noqa: PLC0415 - models load before this runs
        from tokens.oauth import expiry as oauth_expiry  # noqa: PLC0415 - as above
        from tokens.oauth.logout import delivery as logout_delivery  # noqa: PLC0415 - as above
        from tokens.oauth.logout import units as logout_notices  # noqa: PLC0415 - as above
        from tokens.sessions import ending  # noqa: PLC0415 - as above
        from tokens.sessions.acting import admin_session, banner  # noqa: PLC0415 - as above
        from tokens.sessions.ends import batches, of_clients  # noqa: PLC0415 - as above
        from tokens.sessions.ends import queries as session_ends  # noqa: PLC0415 - as above
        from tokens.upstream import exchange as upstream_exchange  # noqa: PLC0415 - as above
        from tokens.upstream import lost_ways  # noqa: PLC0415 - as above
        from tokens.upstream import providers as upstream_providers  # noqa: PLC0415 - as above

        client_context.register_own_paths(OAUTH_PATH)
        error_pages.register_program_paths(OAUTH_PATH)
        registration.register()
        admin_devices.connect()
        admin_session.connect()
        banner.register()
        invariants.sessions_end.connect(ending.all_end, dispatch_uid="tokens.sso_sessions_end")
        ways_in.removed.connect(session_ends.passkey_gone, dispatch_uid="tokens.passkey_gone")
        ways_in.removed.connect(lost_ways.identity_gone, dispatch_uid="tokens.identity_gone")
        oauth_expiry.connect()
        ending.clients_signed_out.connect(logout_notices.queue, dispatch_uid="tokens.logout_notices")
        client_queries.client_ends.connect(oauth_expiry.end_of_client, dispatch_uid="tokens.oauth_ends")
        of_clients.connect()
        batches.connect()
        rights.register_machines(client_queries.rights_of_machine)
        audit_trail.register_machines(client_queries.names_of)
        key_rotation.register_token_life(client_queries.longest_access_token_s)
        invalidation_feed().subscribe(key_rotation.KEYS_TAG, key_store().outdated)
        invalidation_feed().subscribe(PROVIDERS_TAG, upstream_providers.outdated)
        on_startup(load_at_startup)
        on_startup(upstream_providers.refresh)
        on_shutdown(upstream_exchange.close)
        on_shutdown(client_fetching.close)
        on_startup(logout_delivery.start)
        on_shutdown(logout_delivery.stop)
