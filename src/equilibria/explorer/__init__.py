"""See a network think, in the browser: a page, and the small server behind it."""

from equilibria.explorer.catalogue import usual_roots
from equilibria.explorer.export import Choice, export
from equilibria.explorer.server import application, serve

__all__ = ["Choice", "application", "export", "serve", "usual_roots"]
