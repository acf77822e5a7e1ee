"""Serve the site on a port: ``python -m tests.site PORT``."""

import os
import sys

import django
from django.core.management import call_command

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.site.settings")
django.setup()
call_command("migrate", verbosity=0)
call_command("runserver", f"127.0.0.1:{sys.argv[1]}", use_reloader=False, skip_checks=False)
