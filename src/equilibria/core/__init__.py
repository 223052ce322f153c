"""Solve fixed points: the solver loop, its budget and its result. Nothing here is learned."""
