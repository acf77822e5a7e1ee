"""A live server and a person, as the tests with other client libraries have them."""

from tokens.oauth.tests.clients.conftest import provider, server_settings

__all__ = ["provider", "server_settings"]
