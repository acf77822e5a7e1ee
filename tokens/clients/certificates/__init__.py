"""Certificates by which clients prove who they are (RFC 8705)."""
