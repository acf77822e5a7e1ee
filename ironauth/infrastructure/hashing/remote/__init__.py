"""Hash workers on other machines: client, server, and the protocol between them."""
