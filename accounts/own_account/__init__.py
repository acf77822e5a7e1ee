"""A person's own account from its sign-up to its end, over HTTP."""
