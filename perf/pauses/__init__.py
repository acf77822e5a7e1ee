"""What the laboratory asks a worker about the garbage collector's pauses."""
