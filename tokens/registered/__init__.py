"""What staff register and clients name: APIs, types of authorization details."""
