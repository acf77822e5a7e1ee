"""Signing keys over HTTP, for staff and machines: what the admin's list of keys and the commands do."""
