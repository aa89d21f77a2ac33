"""The same trivial runs by xyzpy's Runner on a Dask client, for comparison with `sweep.py`.

    python tests/benchmarks/xyzpy_overhead.py [SIZE]

xyzpy is no dependency of this project: run this with a Python that has xyzpy, matplotlib, dask and distributed.  One
task a run, on two worker processes; prints wall seconds and milliseconds a run from the call to the labelled Dataset,
the cluster being there already.
"""

import sys
import time

import xyzpy
from distributed import Client


def method(i, j):
    """A run that returns at once."""
    return float(i)


def main():
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    runner = xyzpy.Runner(method, var_names=["error"])
    combos = {"i": list(range(size // 10)), "j": list(range(10))}
    with Client(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as client:
        client.submit(method, 0, 0).result()
        started = time.perf_counter()
        data = runner.run_combos(combos, executor=client, verbosity=0)
        seconds = time.perf_counter() - started
    assert data.error.size == size
    print(f"xyzpy {xyzpy.__version__}, {size:,} runs: {seconds:.1f} s, {1e3 * seconds / size:.2f} ms a run")


if __name__ == "__main__":
    main()
