"""Which tests run, and what one must not leave to the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


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
