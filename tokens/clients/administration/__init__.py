"""Clients over HTTP, for staff and machines: what the admin's pages of clients do."""
