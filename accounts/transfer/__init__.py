"""Moving people in from other systems, and out again."""
