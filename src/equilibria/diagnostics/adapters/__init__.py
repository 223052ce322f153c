"""Any looped model as an `EquilibriumModel`. To add a family of models: one file with a `from_...` function."""
