"""Runs that return arrays: time, bytes written, memory and file size, beside two ways without this package.

    python tests/benchmarks/arrays.py [SECTIONS]... [--scale S]

Each line is one process that runs a study of a function on two workers: CPU seconds of all processes and of the command
alone, bytes that the command wrote to disk for each byte of the values, peak memory of the command, and the file.  The
same values go through joblib and one `to_netcdf`, and into a zarr store whose regions the workers write.  Both are left
out if joblib or zarr are not installed.  "read" is all values by netCDF4, and "plain" the same values in a file that
netCDF4 has written with zlib, shuffle and its checksum.  --scale: fewer runs.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import xarray as xr

FUNCTIONS = """
import numpy as np
def array(seed, n):
    return {"u": ("y", np.random.default_rng(seed).standard_normal(n)), "norm": float(seed)}
def scalars(seed, n):
    return {f"v{number}": float(seed + number) for number in range(n)}
def events(seed, n):
    import xarray as xr
    chance = np.random.default_rng(seed)
    count = int(chance.integers(1, n + 1))
    infected = np.cumsum(chance.choice([-1, 1], count)).astype("i4")
    return xr.Dataset({"I": ("t", infected)}, {"t": np.cumsum(chance.exponential(0.1, count))})
"""
SECTIONS = {  # function, runs, values of each; the runs that are added afterwards
    "scalars": ("scalars", 150, 1, 1),
    "large": ("array", 150, 125_000, 1),
    "many scalars": ("scalars", 10_000, 1, 10),
    "small": ("array", 10_000, 1_000, 10),
    "most scalars": ("scalars", 100_000, 1, 100),
    "tiny": ("array", 100_000, 125, 100),
    "outputs": ("scalars", 4, 2_000, 1),
    "trajectories": ("events", 10_000, 2_000, 10),
}
TOOLS = ("evogt", "joblib", "zarr")
MOST_REGIONS = 1_000
"""Regions of a zarr store, each of which takes milliseconds."""
STUDY = 'name = "s"\nmethod = "functions.py:{name}"\n[axes]\nseed = {{ count = {count} }}\n[constants]\nn = {size}\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", default=list(SECTIONS))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--child", nargs=4)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], options.child[1], *map(int, options.child[2:]))
        return
    print(f"{'':30}{'values':>9}{'file':>9}{'CPU s':>8}{'command':>9}{'written':>9}{'peak':>7}{'read':>8}{'plain':>8}")
    print(f"{'':30}{'MB':>9}{'MB':>9}{'':>8}{'CPU s':>9}{'B / B':>9}{'MB':>7}{'CPU s':>8}{'CPU s':>8}")
    for section in options.sections:
        name, runs, size, more = SECTIONS[section]
        runs = max(4, round(runs * options.scale))
        for tool in TOOLS:
            if tool != "evogt" and (name != "array" or find_spec(tool) is None):
                continue
            if tool == "zarr" and runs > MOST_REGIONS:
                continue
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "functions.py").write_text(FUNCTIONS)
                measured(f"{section}, {tool}", folder, tool, name, runs, size)
                if tool == "evogt":
                    measured(f"  {more} runs more", folder, tool, name, runs + more, size)


def measured(title, folder, tool, name, runs, size):
    """Run a study in a process of its own, and print what it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, str(Path(__file__).resolve()), "--child", tool, name, str(runs), str(size)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = sum(getattr(after, kind) - getattr(before, kind) for kind in ("ru_utime", "ru_stime"))
    own, written, peak = map(float, done.stdout.split()[-3:])
    path, plain, values, read = Path(folder) / "s.nc", Path(folder) / "plain.nc", 8 * runs * size, [0.0, 0.0]
    if path.exists():
        with xr.open_dataset(path, engine="netcdf4", mask_and_scale=False) as data:
            counted = data.get("t_count")
            values = values if counted is None else 12 * int(counted.sum())
            packing = {"zlib": True, "complevel": 1, "shuffle": True, "fletcher32": True}
            numbers = [name for name, each in data.variables.items() if each.ndim and each.dtype.kind in "fiu"]
            data[numbers].drop_encoding().to_netcdf(plain, encoding=dict.fromkeys(numbers, packing))
        read = [min(read_numbers(each, numbers) for _ in range(3)) for each in (path, plain)]
    files = [path] if path.exists() else (Path(folder) / "s.zarr").rglob("*")
    stored = sum(each.stat().st_size for each in files if each.is_file())
    print(
        f"{title:30}{values / 1e6:9.1f}{stored / 1e6:9.1f}{spent:8.2f}{own:9.2f}{written / values:9.2f}{peak:7.0f}"
        f"{read[0]:8.2f}{read[1]:8.2f}",
        flush=True,
    )


def read_numbers(path, names):
    """Read variables by netCDF4, and return the CPU seconds that it took."""
    begin = time.process_time()
    with xr.open_dataset(path, engine="netcdf4", mask_and_scale=False, decode_times=False) as data:
        for name in names[:50]:
            np.asarray(data[name].values)
    return time.process_time() - begin


def child(tool, name, runs, size):
    """Run a study here, and print CPU seconds, bytes written and peak memory of this process."""
    {"evogt": by_evogt, "joblib": by_joblib, "zarr": by_zarr}[tool](name, runs, size)
    written = next(int(line.split()[1]) for line in Path("/proc/self/io").read_text().splitlines() if "write_b" in line)
    peak = next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    print(time.process_time(), written, peak / 1000)


def by_evogt(name, runs, size):
    from evogt_study.cli.main import main as evogt

    Path("s.toml").write_text(STUDY.format(name=name, count=runs, size=size))
    evogt(["run", "-q", "s.toml", "-o", "s.nc", "--workers", "2"], standalone_mode=False)


def function(name):
    sys.path.insert(0, os.getcwd())
    import functions

    return getattr(functions, name)


def by_joblib(name, runs, size):
    from joblib import Parallel, delayed

    method = function(name)
    found = Parallel(n_jobs=2)(delayed(method)(seed, size) for seed in range(runs))
    data = xr.Dataset({"u": (("seed", "y"), np.stack([each["u"][1] for each in found]))})
    data["norm"] = "seed", [each["norm"] for each in found]
    data.to_netcdf("s.nc", encoding={"u": {"zlib": True, "complevel": 1}})


def by_zarr(name, runs, size):
    import dask.array
    from joblib import Parallel, delayed

    empty = xr.Dataset({"u": (("seed", "y"), dask.array.zeros((runs, size), chunks=(1, size)))})
    empty.to_zarr("s.zarr", compute=False)
    Parallel(n_jobs=2)(delayed(write_region)(name, seed, size) for seed in range(runs))


def write_region(name, seed, size):
    values = function(name)(seed, size)["u"][1]
    xr.Dataset({"u": (("seed", "y"), values[None])}).to_zarr("s.zarr", region={"seed": slice(seed, seed + 1)})


if __name__ == "__main__":
    main()
