"""People who move here at their first sign-in: the old system is asked once whether the password is right."""
