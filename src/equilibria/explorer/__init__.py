"""See a network think, in the browser: a page, and the small server behind it."""

from equilibria.explorer.catalogue import usual_roots
from equilibria.explorer.server import application, serve

__all__ = ["application", "serve", "usual_roots"]
