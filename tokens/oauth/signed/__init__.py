"""Messages that are signed as such: request objects (RFC 9101), answers (JARM) and introspection (RFC 9701)."""
