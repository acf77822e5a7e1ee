"""What becomes of a refresh token that is presented."""
