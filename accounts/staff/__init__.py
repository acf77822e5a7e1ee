"""What staff do with other people's accounts and with roles, and which rights that takes."""
