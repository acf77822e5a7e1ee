"""What people and staff ask, among a thousand people and among millions. See ``experiment``."""
