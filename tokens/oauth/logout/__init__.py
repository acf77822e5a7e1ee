"""Sign-out asked for by a client, and back-channel logout."""
