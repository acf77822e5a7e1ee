"""The registered APIs for staff and machines."""
