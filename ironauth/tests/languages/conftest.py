"""The provider of the tests of signing in elsewhere, for these as well."""

from tokens.upstream.tests.conftest import provider, server

__all__ = ["provider", "server"]
