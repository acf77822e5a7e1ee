"""What people sign in with, for staff and machines: the password, passkeys, the app, identities, kept devices."""
