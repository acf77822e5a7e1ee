"""Relying parties and agents that need more than a program: sites, browsers, MCP servers. `make clients` runs them.

A run of the suite leaves them out (``conftest``): what they need is fetched from registries of other languages.
"""
