"""The admin site, and its pages about people and roles."""
