"""What waits for a person of organisations: invitations to their proved address; and one member, for pages."""
