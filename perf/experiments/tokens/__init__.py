"""What signatures cost, and what remembering a verification saves. See ``experiment``."""
