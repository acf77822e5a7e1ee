"""The five requests that sign somebody in at a client, by one to fifty clients."""
