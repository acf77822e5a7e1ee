"""Dates in one style on every page of the admin, Django's own fields and ours: as short as they sort (ISO 8601)."""

DATE_FORMAT = SHORT_DATE_FORMAT = "Y-m-d"
DATETIME_FORMAT = SHORT_DATETIME_FORMAT = "Y-m-d H:i"
TIME_FORMAT = "H:i"
YEAR_MONTH_FORMAT = "Y-m"
MONTH_DAY_FORMAT = "m-d"
#: A point in time in a sentence of a page or message; every language has it.
MOMENT_FORMAT = "j F Y, H:i"
