"""The version of IronAuth, as ``/health`` and the OpenAPI document give it; equal to the one in ``pyproject.toml``."""

VERSION = "0.4.0"
