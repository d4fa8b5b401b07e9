"""The examples in docstrings, and in the README, run."""

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path

import callweave
import pytest
from callweave import _callweave


def documented():
    """Everything with an example in its docstring, by its name."""
    found = {}
    names = [module.name for module in pkgutil.walk_packages(callweave.__path__, "callweave.")]
    for name in names:
        if name.rsplit(".", 1)[-1] in ("__main__", "httpx", "httpx2"):  # what they are made of may not be installed
            continue
        module = importlib.import_module(name)
        things = {name: module}
        for key, thing in vars(module).items():
            is_own = getattr(thing, "__module__", None) == name or module is _callweave
            if is_own and (inspect.isroutine(thing) or inspect.isclass(thing)):
                things[f"{name}.{key}"] = thing
                if inspect.isclass(thing):
                    things.update({f"{name}.{key}.{own}": method for own, method in vars(thing).items()})
        for key, thing in things.items():
            document = getattr(thing, "__doc__", None)
            if isinstance(document, str) and ">>> " in document:
                found[key] = (document, vars(module))
    return found


EXAMPLES = documented()


def test_all_functions_have_examples():
    functions = {name for name, thing in vars(_callweave).items() if inspect.isroutine(thing)}
    shown = {name.rsplit(".", 1)[-1] for name in EXAMPLES}
    # One is for the console script, the other for `callweave.compat.prompty`.
    others = {"run_program", "process_response"}
    # Those of `callweave.arrow` need an engine: the recipes of docs/bulk.md are run with each.
    columns = {name for name in functions if name.startswith("arrow_")} | {"report"}
    assert functions - shown == others | columns


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs(name):
    document, names = EXAMPLES[name]
    run(document, {**vars(callweave), **names}, name)


def run(text, names, title):
    test = doctest.DocTestParser().get_doctest(text, dict(names), title, title, 0)
    report = []
    results = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(test, out=report.append)
    assert results.attempted and not results.failed, "".join(report)


@pytest.mark.parametrize("document", ["README.md", "../../docs/python.md"])
def test_examples_of_documents_run(document):
    path = Path(__file__).parents[1] / document
    if not path.exists():
        pytest.skip("the documents of the repository are not here")
    run(path.read_text(), {}, document)
