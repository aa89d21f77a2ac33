"""Compute the shipped studies again and compare every value with data/results, bit for bit.

    python tests/judge.py [--workers N] [--keep FOLDER] [--baseline FOLDER]

The last digits depend on the kernels of OpenBLAS, which a result records.  The judge computes with the kernels of the
stored results (OPENBLAS_CORETYPE).  If the processor or the versions of NumPy and SciPy do not give the same digits,
compute a baseline with another checkout on this machine (`--keep FOLDER`), and compare with it (`--baseline FOLDER`).

For each difference it prints the variable, the number of values that differ and the largest difference, relative to the
largest stored value of the variable.  Exit code 0: all values are equal.  1: some differ.  2: a mistake.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import netCDF4
import numpy as np
import xarray as xr

ROOT = Path(__file__).parents[1]

EXCLUDED_VARIABLES = {
    "run_seconds": "time, which differs from run to run",
    "run_software": "versions that computed a run",
}
EXCLUDED_ATTRIBUTES = {
    "history": "dates", "date_created": "date",
    "git_revision": "revision", "git_dirty": "revision",
    "product_version": "version", "versions": "versions",
    "platform": "machine", "cpu": "machine",
    "study": "text of the study: test_shipped_results compares it", "study_sha256": "digest of this text",
    "study_file": "path of the study",
    "pilot_group": "name of a group",
    "plan_digest": "digest that includes the code", "content_digests": "digests of the values, which are compared",
}  # fmt: skip
"""Variables and global attributes that are not compared, each with the reason."""


def count_of(number, what):
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


def read_phases(path):
    """The phases of a file by name: variables and global attributes, read without the package."""
    with netCDF4.Dataset(path) as file:
        groups = [None, *file.groups]
    found = {}
    for group in groups:
        with xr.open_dataset(path, group=group, engine="netcdf4", decode_times=False) as data:
            variables = {name: each for name, each in data.load().variables.items() if name not in EXCLUDED_VARIABLES}
            attributes = {name: each for name, each in data.attrs.items() if name not in EXCLUDED_ATTRIBUTES}
            found[data.attrs["phase"]] = variables, attributes
    return found


def form_of(variable):
    """Dimensions, shape and type of a variable in its file."""
    dtype = variable.encoding.get("dtype", variable.dtype)
    dtype = "string" if dtype in (str, object) or dtype.kind in "SU" else str(dtype)
    return variable.dims, variable.shape, dtype


def find_differences(stored, now):
    """Yield one line for each difference of two files."""
    old, new = read_phases(stored), read_phases(now)
    yield from missing("phase", old, new)
    for phase in (phase for phase in old if phase in new):
        (old_variables, old_attributes), (variables, attributes) = old[phase], new[phase]
        lines = [*missing("variable", old_variables, variables), *unequal_attributes(old_attributes, attributes)]
        for name in (name for name in old_variables if name in variables):
            lines += [f"{name}: {line}" for line in unequal_variables(old_variables[name], variables[name])]
        yield from (f"{phase}: {line}" for line in lines)


def unequal_variables(stored, now):
    yield from unequal_attributes(stored.attrs, now.attrs)
    if form_of(stored) != form_of(now):
        yield f"dims, shape and type {form_of(stored)}, now {form_of(now)}"
    else:
        yield from unequal_values(stored.values, now.values)


def missing(what, stored, now):
    for name in sorted(stored.keys() ^ now.keys()):
        yield f"{what} {name} only {'in the stored result' if name in stored else 'in the computed result'}"


def unequal_attributes(stored, now):
    old, new = ({name: repr(value) for name, value in each.items()} for each in (stored, now))
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield f"attribute {name} {old.get(name)}, now {new.get(name)}"


def unequal_values(stored, now):
    if stored.dtype.kind == now.dtype.kind == "f":  # integers with a fill value are floats too
        # as bits, since == takes 0.0 for -0.0; one NaN is like another
        bits = f"i{stored.dtype.itemsize}"
        unequal = (stored.view(bits) != now.view(bits)) & ~(np.isnan(stored) & np.isnan(now))
    else:
        unequal = np.asarray(stored != now)
    count, amount = int(np.count_nonzero(unequal)), ""
    if count and stored.dtype.kind in "iuf":
        with np.errstate(all="ignore"):
            gaps = np.abs(now.astype(float) - stored)[unequal]
            amount = f", by at most {gaps.max() / np.nanmax(np.abs(stored)):.1e} of the largest"
    if count:
        yield f"{count} of {stored.size} values differ{amount}"


def use_kernels_of(path):
    """Start this program again with the kernels of OpenBLAS that computed a result, unless they are in use."""
    from evogt_study.results.provenance import read_environment

    with netCDF4.Dataset(path) as file:
        recorded, here = json.loads(file.versions), json.loads(read_environment()["versions"])
    kernels = recorded["blas"].split()[-1]
    if recorded["blas"] != here["blas"] and os.environ.get("OPENBLAS_CORETYPE") != kernels:
        os.execve(sys.executable, sys.orig_argv, {**os.environ, "OPENBLAS_CORETYPE": kernels})
    for name in ("python", "numpy", "scipy", "blas"):
        if recorded[name] != here[name]:
            print(f"the stored results have {name} {recorded[name]}, this machine {here[name]}: last digits may differ")


def parse_options(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2, metavar="N")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="new folder for the computed results")
    parser.add_argument("--baseline", type=Path, metavar="FOLDER", default=ROOT / "data" / "results")
    options = parser.parse_args(arguments)
    studies = sorted((ROOT / "studies" / "paper").glob("*.toml"))
    options.studies = [path for path in studies if (options.baseline / f"{path.stem}.nc").is_file()]
    if not options.studies:
        parser.error(f"no result of a shipped study in {options.baseline}")
    if options.keep is not None and options.keep.exists():
        parser.error(f"{options.keep} exists, and its runs would be reused. Choose a new folder.")
    return options


def main(arguments=None):
    options = parse_options(arguments)
    use_kernels_of(options.baseline / f"{options.studies[0].stem}.nc")
    from evogt_study.errors import EvogtError
    from evogt_study.operations.run import run_all
    from evogt_study.study.study import Study
    from evogt_study.workers.runner import RunOptions

    found = 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            studies = [Study.from_file(path) for path in options.studies]
            # all before the first is read: HDF5 does not read in one thread what it writes in another
            paths = sorted(run_all(studies, options.keep or Path(folder), options=RunOptions(workers=options.workers)))
            for path in paths:
                lines = list(find_differences(options.baseline / path.name, path))
                print("\n    ".join([f"{path.stem}: {count_of(len(lines), 'difference')}", *lines]), flush=True)
                found += len(lines)
        except (EvogtError, OSError) as error:
            print(f"judge: {error}", file=sys.stderr)
            return 2
    print(f"all studies: {count_of(found, 'difference')}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # the code of this checkout, if another one is installed
    sys.exit(main())
