"""/oauth/authorize and the pages behind it."""
