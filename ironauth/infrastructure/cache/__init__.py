"""The two cache levels, and the invalidation feed that keeps them honest."""
