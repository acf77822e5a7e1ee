"""Parts of Django's admin that know no model of ours."""
