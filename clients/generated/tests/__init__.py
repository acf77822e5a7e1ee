"""Each generated client signs in."""
