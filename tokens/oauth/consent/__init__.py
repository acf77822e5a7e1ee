"""What people have allowed clients."""
