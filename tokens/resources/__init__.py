"""APIs that access tokens are made for: protected resources and resource indicators (RFC 8707, RFC 9728)."""
