"""Sign people in to a Django site at an IronAuth server."""
