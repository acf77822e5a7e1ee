"""Signing in: password, second factor, passkey."""
