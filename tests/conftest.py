"""The code under test, and which tests run. Options are in the conftest.py above."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from grafting import import_all


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    if config.getoption("--slow"):
        return
    skip = pytest.mark.skip(reason="slow: run with --slow")
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(skip)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """A script under test may set the number of threads: only for its own test."""
    n_threads = torch.get_num_threads()
    try:
        return (yield)
    finally:
        torch.set_num_threads(n_threads)


@pytest.fixture(scope="session")
def impl(request: pytest.FixtureRequest) -> Any:
    """The code under test: the package, with every submodule imported.

    A test reaches what it grades only through this, never by an import of its own, so
    that the same tests can grade another implementation: with --impl, this is a copy of
    the package with a learner's functions in it.
    """
    if hasattr(request, "param"):
        grader: Any = request.config.pluginmanager.get_plugin("grading")
        return grader.namespace(request.param)
    return import_all()
