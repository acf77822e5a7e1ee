"""The fixtures of the provider's tests, for tests of a room below it."""

from tokens.oauth.conftest import app, gateway, robot, tokens, wiki

__all__ = [
    "app",
    "gateway",
    "robot",
    "tokens",
    "wiki",
]
