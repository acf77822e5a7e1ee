"""Commands of a site that keeps its users."""
