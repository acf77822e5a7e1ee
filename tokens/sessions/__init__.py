"""Sessions: opened, refreshed, ended, and found behind an access token."""
