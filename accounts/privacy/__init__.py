"""The export of everything held about a person, and the deletion of accounts."""
