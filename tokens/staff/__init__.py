"""What staff do with other people's sessions."""
