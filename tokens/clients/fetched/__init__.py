"""What is fetched from addresses that a client has registered: its keys, its sector's list, requests and its logo."""
