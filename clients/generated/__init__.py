"""Clients that others' generators make of the OpenAPI document, compiled and tried at a live server."""
