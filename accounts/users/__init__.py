"""The user: rows, rules over them, and what people do with their own account."""
