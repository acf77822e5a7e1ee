"""Keys derived from the master keys, and the values sealed or signed with them."""
