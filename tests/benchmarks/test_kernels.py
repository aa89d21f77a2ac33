"""The kernels under pytest-benchmark, at the paper's sizes; with --benchmark-disable each runs once at small ones.

python -m pytest -q -o addopts= tests/benchmarks/test_kernels.py
"""

import functools
import runpy
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

SCRIPT = runpy.run_path(str(Path(__file__).with_name("kernels.py")))
COUNT = len(SCRIPT["kernels"](1, SCRIPT["SMALL"][1]))


@functools.cache
def kernels_of(dimension, sizes):
    return SCRIPT["kernels"](dimension, SCRIPT[sizes][dimension])


@pytest.mark.parametrize("number", range(COUNT))
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_kernel(benchmark, pytestconfig, dimension, number):
    kernel = kernels_of(dimension, "SMALL" if pytestconfig.getoption("benchmark_disable") else "PAPER")[number]
    benchmark.extra_info["kernel"] = kernel.name
    with threadpool_limits(1):
        benchmark(kernel.run)
