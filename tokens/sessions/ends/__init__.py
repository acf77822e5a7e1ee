"""Sessions that end by what else happens: thrown out with the kept device, or replaced by another sign-in."""
