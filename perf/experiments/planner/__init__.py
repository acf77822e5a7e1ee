"""What ``random_page_cost`` changes in Postgres' plans. See ``experiment``."""
