"""Clients that register themselves: RFC 7591 and RFC 7592."""
