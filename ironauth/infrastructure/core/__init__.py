"""What everything stands on: time, ids, errors, types; no room of its own below it."""
