"""Two nodes of IronAuth in network namespaces of their own, behind nginx, and what they promise together."""
