"""Roles, as staff manage them."""
