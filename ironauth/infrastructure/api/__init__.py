"""The base of the JSON API on Django REST framework: views, parsers, renderers, problem documents."""
