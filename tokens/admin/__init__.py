"""The admin's pages about sessions, keys, clients and consents."""
