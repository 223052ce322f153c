"""Watch a network solve, in the browser: a page, and the small server behind it."""

from equilibria.explorer._export import ExportChoice, export
from equilibria.explorer.catalogue import default_roots
from equilibria.explorer.server import application, serve

__all__ = ["ExportChoice", "application", "default_roots", "export", "serve"]
