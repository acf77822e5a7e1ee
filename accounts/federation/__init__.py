"""Signing in with another provider: which providers, whose identities there, and what they may open here."""
