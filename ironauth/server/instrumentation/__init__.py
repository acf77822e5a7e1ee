"""What watches a running worker: metrics and traces of requests, figures sampled, the event loop."""
