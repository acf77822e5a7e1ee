"""A member of staff signed in as a person, for support: begin, judge anew at each use, end."""
