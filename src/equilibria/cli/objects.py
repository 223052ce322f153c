"""Objects of the user, named on the command line as module:object."""

import importlib
import inspect
import os
import sys
from typing import Any

from equilibria.cli.failures import UsageError


def find_object(name: str) -> Any:
    """Import what `name`, module:object, refers to. The working directory is searched first, as by python -m."""
    module, colon, path = name.partition(":")
    if not (module and colon and path):
        raise UsageError(f"{name} is not of the form module:object, such as my_project.models:model")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"cannot find {name}: {error}") from error
    return found


def returned(function: Any, name: str) -> Any:
    """What a function without arguments returns."""
    parameters = inspect.signature(function).parameters.values()
    required = [
        one.name
        for one in parameters
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    if required:
        raise UsageError(f"{name} needs arguments ({', '.join(required)}); name an object, or a function without any")
    return function()
