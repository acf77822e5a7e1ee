"""Settings: how they are read from the environment, what each may be, and what start-up refuses."""
