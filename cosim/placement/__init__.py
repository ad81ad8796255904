"""Fractional placements of experts: made, searched, read, written and priced."""
