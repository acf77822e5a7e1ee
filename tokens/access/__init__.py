"""Access tokens and other signed tokens on the wire, and where a request carries one."""
