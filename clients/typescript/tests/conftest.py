"""A live server as the tests with other client libraries have it, and a browser as the tests of our pages have it."""

from ironauth.tests.browser.conftest import chromium, chromium_path, open_page, open_site
from tokens.oauth.tests.clients.conftest import provider, server_settings

__all__ = ["chromium", "chromium_path", "open_page", "open_site", "provider", "server_settings"]
