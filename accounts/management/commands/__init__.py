"""Management commands of this application."""
