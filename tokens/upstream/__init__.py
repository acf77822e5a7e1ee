"""The way to another provider and back: a sign-in with an identity there."""
