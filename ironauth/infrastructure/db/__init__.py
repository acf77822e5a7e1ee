"""Units of work, and what runs statements cheaply inside them."""
