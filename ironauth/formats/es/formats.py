"""A point in time in a sentence, as Spanish writes it; all else is Django's own."""

MOMENT_FORMAT = r"j \d\e F \d\e Y, H:i"
