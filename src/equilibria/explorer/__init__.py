"""A web page that shows nets while they solve, and its server."""

from equilibria.explorer._export import ExportChoice, ImpossibleChoice, export
from equilibria.explorer.catalogue import default_roots
from equilibria.explorer.server import application, serve

__all__ = ["ExportChoice", "ImpossibleChoice", "application", "default_roots", "export", "serve"]
