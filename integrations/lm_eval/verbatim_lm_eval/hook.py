"""Registers the model "verbatim" as soon as the harness' models are imported.

The harness looks its models up in a table and has no entry points for others. Importing this
module imports nothing of the harness and takes no time.
"""

import importlib.abc
import importlib.machinery
import sys

TARGET = "verbatim_lm_eval.model:VerbatimLM"


def register():
    from lm_eval.api.registry import model_registry

    if "verbatim" not in model_registry:
        model_registry.register("verbatim", target=TARGET)


class Finder(importlib.abc.MetaPathFinder):
    """Finds lm_eval.models as the other finders do, and registers once it is loaded."""

    def find_spec(self, name, path=None, target=None):
        if name != "lm_eval.models":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_register(module):
            execute(module)
            register()

        spec.loader.exec_module = execute_and_register
        return spec


if not any(isinstance(finder, Finder) for finder in sys.meta_path):
    sys.meta_path.insert(0, Finder())
