"""The Locust swarm: people and services at work, in numbers, against a server of this machine. See ``__main__``."""
