"""The queue of messages: written with the act, rendered and delivered afterwards."""
