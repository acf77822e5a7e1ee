"""Relying parties and agents that need more than a program: sites, browsers, MCP servers. `make clients` runs them.

A run of the suite has the judges of agents alone (``conftest``): what the others need takes longer to fetch and to run.
"""
