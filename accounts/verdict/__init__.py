"""Whether somebody can sign in, and if not, why: what staff are asked every day."""
