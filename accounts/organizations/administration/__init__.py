"""What staff and machines do with organisations, over HTTP."""
