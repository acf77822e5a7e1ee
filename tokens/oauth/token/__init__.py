"""The token endpoint, its grants, introspection and revocation."""
