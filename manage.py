#!/usr/bin/env python
"""Run Django's and IronAuth's management commands."""

import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ironauth.settings")
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        # The message names the setting and the remedy; a traceback above it would only hide them.
        sys.exit(f"Configuration: {error}")
