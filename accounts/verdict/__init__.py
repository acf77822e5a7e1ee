"""Whether somebody can sign in, and if not, why: the question staff hear every day."""
