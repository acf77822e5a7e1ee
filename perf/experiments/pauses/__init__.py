"""How long the garbage collector holds a worker that has many live tokens."""
