"""Clients that their own document describes (draft-ietf-oauth-client-id-metadata-document)."""
