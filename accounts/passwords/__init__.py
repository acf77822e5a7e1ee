"""Password hashes, and which new passwords are refused."""
