"""The same study with several programs, each in a process of its own, in turns.

python tests/benchmarks/other_programs.py [--repeat 3]    # needs xyzpy, joblib, mushin-py and xsweep

Each program computes `value` over `x` and `seed` with two workers and writes one labelled NetCDF file (xsweep: Zarr).
"""

import argparse
import importlib.util
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODEL = """
import time
import numpy as np

def model(x, seed):
    time.sleep({seconds})
    return float(x + np.random.default_rng(seed).random())
"""
AXES = "x, seed = list(range({points})), list(range(10))"
PROGRAMS = {
    "evogt_study": ("evogt_study", "import evogt_study as evs\n"
        "evs.run(evs.Study(model, axes={'x': x, 'seed': seed}), output='out.nc', workers=2)"),
    "a loop": ("xarray", "import xarray as xr\n"
        "data = [[model(a, b) for b in seed] for a in x]\n"
        "xr.DataArray(data, {'x': x, 'seed': seed}, name='value').to_netcdf('out.nc')"),
    "joblib": ("joblib", "import numpy as np, xarray as xr\nfrom joblib import Parallel, delayed\n"
        "found = Parallel(2)(delayed(model)(a, b) for a in x for b in seed)\n"
        "data = np.reshape(found, (len(x), len(seed)))\n"
        "xr.DataArray(data, {'x': x, 'seed': seed}, name='value').to_netcdf('out.nc')"),
    "Dask alone": ("distributed", "import numpy as np, xarray as xr\nfrom distributed import Client\n"
        "with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:\n"
        "    pairs = [(a, b) for a in x for b in seed]\n"
        "    found = client.gather(client.map(model, *zip(*pairs), batch_size=100))\n"
        "data = np.reshape(found, (len(x), len(seed)))\n"
        "xr.DataArray(data, {'x': x, 'seed': seed}, name='value').to_netcdf('out.nc')"),
    "xyzpy": ("xyzpy", "import xyzpy\n"
        "harvester = xyzpy.Harvester(xyzpy.Runner(model, ['value']), 'out.nc')\n"
        "harvester.harvest_combos({'x': x, 'seed': seed}, parallel=True, num_workers=2, verbosity=0)"),
    "mushin": ("mushin", "import mushin\n"
        "ran = mushin.sweep(lambda x, seed: {'value': model(x, seed)})\n"
        "ran.run(x=mushin.multirun(x), seed=mushin.multirun(seed)).to_netcdf('out.nc')"),
    "xsweep": ("xsweep", "import xarray as xr\nfrom xsweep import sweep\n"
        "@sweep('loop(x, seed) -> value()', store='out.zarr', executor='process', max_workers=2)\n"
        "def lifted(x: int, seed: int) -> float:\n    return model(x, seed)\n"
        "lifted(xr.Dataset({'x': ('x', x), 'seed': ('seed', seed)}))"),
}  # fmt: skip
"""The module that a program needs, and its code."""


def measure(code: str) -> tuple[float, float]:
    """Return wall seconds and processor seconds of a script in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "script.py").write_text(code)
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "HYDRA_FULL_ERROR": "1"}
        subprocess.run([sys.executable, "script.py"], cwd=folder, check=True, capture_output=True, env=environment)
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    names = [name for name, (module, _) in PROGRAMS.items() if importlib.util.find_spec(module)]
    for points, seconds in ((40, 0.02), (200, 0.0)):
        if points > 100:
            names = [name for name in names if name != "mushin"]  # 0.1 s for each run
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        for _ in range(repeat):
            for name in names:
                script = MODEL.format(seconds=seconds) + "\nif __name__ == '__main__':\n    "
                body = AXES.format(points=points) + "\n" + PROGRAMS[name][1]
                taken[name].append(measure(script + body.replace("\n", "\n    ")))
        print(f"\n{10 * points} runs of {1000 * seconds:.0f} ms\nprogram         wall s   processor s")
        for name in names:
            wall, processor = (statistics.median(each) for each in zip(*taken[name], strict=True))
            print(f"{name:14} {wall:7.2f} {processor:10.2f}", flush=True)


if __name__ == "__main__":
    main()
