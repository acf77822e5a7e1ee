"""Sign-in providers as staff and machines administer them: what the admin's page and the API share, and the API."""
