"""Pages for people without a product front end."""
