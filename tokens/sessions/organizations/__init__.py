"""The organization that a session acts for: chosen with a refresh or a sign-in, told by its tokens."""
