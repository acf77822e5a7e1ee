"""Single sign-on: the session and cookie of this provider's own pages."""
