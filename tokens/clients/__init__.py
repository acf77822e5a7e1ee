"""OAuth clients: rows, rules, how they authenticate, and the subjects they see."""
