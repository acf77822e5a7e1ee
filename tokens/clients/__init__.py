"""OAuth clients: rows, rules, how they authenticate, and whom they see."""
