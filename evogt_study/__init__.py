"""Run parametric studies of a function over seeds and parameters, with labelled results.

1. Describe a study of a function, or of a method of an installed package.  Run the study, and compute statistics over
   seeds::

    study = evs.Study(function, axes={"rho": [20, 28], "seed": range(10)})      # or Study.from_file("FILE.toml")
    ds = evs.run(study)                         # on this machine; client=... for any Dask cluster
    evs.summary(ds.error, over="seed")
    ds = evs.run(study.replace(constants={"beta": 2.5}), output="lorenz.nc")    # reuses the finished runs of the file

2. Open a result.  The methods of `ds.evogt` use the variables of the result::

    with evs.open("results/oscillatory_1d.nc") as ds:
        ds.evogt.compare("dictionary").conclusion                    # which dictionary has the lowest error
        evs.observed_orders(ds.error, along="N", over="seed")        # for a study with an axis N

The solver of the paper, Evo-GTransNet, is in `evogt_study.pde`.

The package imports each name at its first use, so that workers and ``evogt --help`` start fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evogt_study.registry import make_lazy_import

if TYPE_CHECKING:
    from evogt_study import errors, pde
    from evogt_study.accessor import open as open
    from evogt_study.analysis.comparison import compare
    from evogt_study.analysis.export import on_grid, to_ragged
    from evogt_study.analysis.performance import over_problems, performance
    from evogt_study.analysis.runs import Design
    from evogt_study.analysis.sensitivity import sensitivity, variance_shares
    from evogt_study.analysis.statistics import observed_orders, summary
    from evogt_study.inference.intervals import Interval
    from evogt_study.methods.current_run import report_progress
    from evogt_study.operations.diff import diff
    from evogt_study.operations.merge import concat, merge
    from evogt_study.operations.progress import Listener, ProgressEvent
    from evogt_study.operations.run import run
    from evogt_study.operations.verify import try_case, verify
    from evogt_study.study.designs import sample, table, zip_axes
    from evogt_study.study.study import Study
    from evogt_study.workers.runner import RunOptions

_import_name = make_lazy_import(__name__, __file__)
_GIVE_DATASETS = (
    "compare", "concat", "merge", "observed_orders", "open", "over_problems", "performance", "run",
    "sensitivity", "summary", "variance_shares",
)  # fmt: skip
"""Names of functions that return Datasets.  Their first use registers the accessor `ds.evogt`."""

__all__ = [
    "Design", "Interval", "Listener", "ProgressEvent", "RunOptions", "Study", "compare", "concat", "diff", "errors",
    "merge", "observed_orders", "on_grid", "over_problems", "pde", "performance", "report_progress", "run", "sample",
    "sensitivity", "summary", "table", "to_ragged", "try_case", "variance_shares", "verify", "zip_axes",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _GIVE_DATASETS:
        import_module("evogt_study.accessor")
    return _import_name(name)


def __dir__() -> list[str]:
    return sorted([*__all__, "open"])  # not in __all__: a star import would replace the built-in `open`
