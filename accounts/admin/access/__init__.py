"""Signing in to the admin, the second step, and confirming it is you."""
