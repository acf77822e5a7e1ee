"""Access to people's accounts at providers, for services of the operator: handed out and renewed."""
