"""The audit trail: recorded in the transaction of each act, read by staff."""
