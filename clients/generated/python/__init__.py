"""A program with the client of openapi-python-client."""
