"""The choice among the accounts that are signed in in one browser."""
