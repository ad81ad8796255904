"""The figures of a report: each module draws one kind from a run's contents, as panels of inline SVG with data."""
