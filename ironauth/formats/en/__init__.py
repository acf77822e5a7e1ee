"""English, the language of every page."""
