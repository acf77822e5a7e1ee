"""A request from the socket to the view: guard, hot lane, lanes, handler, middleware, cookies."""
