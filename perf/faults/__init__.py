"""``make faults``: what IronAuth depends on is broken under load, and every answer is held against the promises."""
