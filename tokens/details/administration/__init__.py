"""Types of authorization details over HTTP, for staff and machines."""
