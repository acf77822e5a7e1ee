"""Invitations: staff ask somebody by mail to make an account, and the link in the message lets them."""
