"""Messages to one person that were not accepted yet, for staff and machines: to see, and to try again."""
