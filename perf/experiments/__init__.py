"""The experiments of the laboratory, each with a ``HYPOTHESIS`` and a ``measure(lab)``; see perf.lab.

One is a module, or where it takes several a package whose module ``experiment`` has the two: its other modules run as
processes of their own and must not load what only the experiment needs.
"""
