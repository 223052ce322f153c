"""Solve fixed points: the loop, what it may spend and what it returns. Nothing here is learned."""
