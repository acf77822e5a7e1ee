"""Signing in with another provider: what it costs this server."""
