"""SQLite under many callers, by journal and by how connections are kept. See ``experiment``."""
