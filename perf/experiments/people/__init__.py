"""People searched for and filtered by staff: whether any of it reads a whole table."""
