"""The previous release on the schema of this one: the real commits, served while the database is migrated."""
