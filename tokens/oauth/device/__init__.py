"""Devices without a browser (RFC 8628)."""
