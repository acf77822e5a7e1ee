"""Uvicorn as IronAuth runs it: processes, connections, responses, start-up and shutdown."""
