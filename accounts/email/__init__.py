"""What people do by e-mail: verify an address, change it, reset a password."""
