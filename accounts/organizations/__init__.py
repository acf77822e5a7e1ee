"""Organisations of people: who is a member of which, with which role, and what a role may do there."""
