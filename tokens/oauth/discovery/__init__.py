"""What clients configure themselves by, and userinfo."""
