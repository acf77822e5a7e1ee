"""Cookies: their names and flags, the one reader, and who may send them."""
