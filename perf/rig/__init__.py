"""What measurements stand on: servers as processes, their databases, cores, meters and samples. It sends no load."""
