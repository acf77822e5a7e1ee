"""Passkeys: WebAuthn ceremonies, credentials, and what people do with them."""
