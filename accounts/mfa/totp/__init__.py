"""One-time codes from an app."""
