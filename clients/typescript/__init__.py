"""The client for TypeScript; what is published is compiled from ``src``."""
