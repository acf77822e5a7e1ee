"""The experiments of the laboratory: one module each, with a ``HYPOTHESIS`` and a ``measure(lab)``; see perf.lab."""
