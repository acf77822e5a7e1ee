"""Who may do what: the rights of staff, and the DRF permissions that ask for them."""
