"""Fixtures of this package's tests: those of the application's."""

from tokens.tests.conftest import new_account, stage, statements, still_clock

__all__ = ["new_account", "stage", "statements", "still_clock"]
