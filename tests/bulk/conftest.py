import os

import pytest
import torch


@pytest.fixture(autouse=True)
def as_before():
    """A worker in this process sets its threads, and says so to libraries."""
    environment, threads = dict(os.environ), torch.get_num_threads()
    yield
    os.environ.clear()
    os.environ.update(environment)
    torch.set_num_threads(threads)
