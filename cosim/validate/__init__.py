"""Statistics, claims, verdicts and the comparison of rungs."""
