import pathlib
import sys

import pytest

root = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(root / "integrations" / "python"))

from verbatim_lm import Model  # noqa: E402


@pytest.fixture(scope="session")
def model():
    with Model() as one:
        yield one


@pytest.fixture(scope="session")
def run():
    """The program."""
    from verbatim_lm import find_program

    return find_program()
