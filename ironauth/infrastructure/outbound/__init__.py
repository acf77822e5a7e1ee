"""Requests to other servers, and which addresses they may go to."""
