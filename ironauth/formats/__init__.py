"""How dates are written, for Django to find by language (FORMAT_MODULE_PATH)."""
