"""A point in time in a sentence, as German writes it; all else is Django's own."""

MOMENT_FORMAT = "j. F Y, H:i"
