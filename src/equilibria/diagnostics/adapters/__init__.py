"""Adapters from looped models to `EquilibriumModel`. To add one, define a `from_...` function in a new file."""
