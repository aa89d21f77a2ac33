"""Parametric studies of any function over seeds and parameters, with labelled results.

The paper's method, Evo-GTransNet, is the first of these functions.  The way of the work, from a question to a number:

1. state what is to be run, and where: a function of one's own, or a method of the package on a problem in formulas;

    study = evs.Study(function, axes={"rho": [20, 28], "seed": range(10)})      # or Study.from_file("FILE.toml")
    ds = evs.run(study)                         # on this machine; client=... for any Dask cluster
    evs.summary(ds.error, over="seed")
    ds = evs.run(study.replace(constants={"beta": 2.5}), output="lorenz.nc")    # what a file has is not computed again

2. of the paper's method, one run is one labelled Dataset;

>>> import evogt_study as evs
>>> problem = evs.problems.oscillatory_1d(epsilon=0.1)
>>> dictionary = evs.Dictionary("gtransnet", N=60, N1=240, gamma=20)
>>> ds = evs.solve(problem, dictionary, seed=0, tau=1e-12, quadrature=320, dt=2.5e-3)
>>> print(f"error {float(ds.error):.2e} at rank {int(ds['rank'])}")
error 5.43e-04 at rank 48

3. run all cases of a question that is written down as a study file, and reduce over the seeds:

    study = evs.Study.from_file("studies/paper/oscillatory_1d.toml")
    ds = evs.run(study)                         # on this machine; client=... for any Dask cluster
    evs.summary(ds.error, over="seed")
    evs.plots.distribution(ds).savefig("errors.pdf")

4. open a result and ask it questions; `ds.evogt` fills in the result's own variables:

    with evs.open("results/oscillatory_1d.nc") as ds:
        ds.evogt.compare("dictionary", "transnet", "gtransnet")      # the gain T/G, win rate, signed-rank test
        evs.observed_orders(ds.error, along="N", over="seed")        # for a study with an axis N

Names are imported when they are first used, so that a worker or ``evogt --help`` does not pay for all of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evogt_study.registry import lazy_names

if TYPE_CHECKING:
    from evogt_study import errors, plots
    from evogt_study.accessor import open as open
    from evogt_study.analysis.comparison import compare, ranking
    from evogt_study.analysis.orders import observed_orders
    from evogt_study.analysis.sensitivity import sensitivity, shares_of_variance
    from evogt_study.analysis.statistics import summary
    from evogt_study.analysis.verdict import verdict
    from evogt_study.inference.intervals import Interval
    from evogt_study.operations.concat import concat
    from evogt_study.operations.merge import merge
    from evogt_study.operations.progress import Event, Listener
    from evogt_study.operations.replay import replay
    from evogt_study.operations.run import run
    from evogt_study.operations.verify import verify
    from evogt_study.pde import problems
    from evogt_study.pde.baselines.stored_solution import evaluate
    from evogt_study.pde.dictionaries.base import Dictionary
    from evogt_study.pde.galerkin.problem import (
        Lifting,
        NaturalFace,
        NonlinearReaction,
        NonSeparable,
        Potential,
        Problem,
        Separable,
        Tensor,
    )
    from evogt_study.pde.numerics.quadrature import QuadratureRule
    from evogt_study.pde.problems.statement import Statement
    from evogt_study.pde.solve import solve
    from evogt_study.study.designs import sample, table, together
    from evogt_study.study.study import Study
    from evogt_study.workers.limits import Limits

_named = lazy_names(
    __name__,
    {
        "evogt_study.pde.galerkin.problem": "NaturalFace NonlinearReaction Problem Tensor Separable NonSeparable Lifting Potential",
        "evogt_study.pde.problems.statement": "Statement",
        "evogt_study.pde.dictionaries.base": "Dictionary",
        "evogt_study.pde.numerics.quadrature": "QuadratureRule",
        "evogt_study.inference.intervals": "Interval",
        "evogt_study.analysis.comparison": "compare ranking",
        "evogt_study.analysis.sensitivity": "shares_of_variance sensitivity",
        "evogt_study.analysis.verdict": "verdict",
        "evogt_study.pde.baselines.stored_solution": "evaluate",
        "evogt_study.operations.concat": "concat",
        "evogt_study.operations.merge": "merge",
        "evogt_study.analysis.orders": "observed_orders",
        "evogt_study.accessor": "open",
        "evogt_study.operations.replay": "replay",
        "evogt_study.pde.solve": "solve",
        "evogt_study.study.study": "Study",
        "evogt_study.study.designs": "sample table together",
        "evogt_study.operations.run": "run",
        "evogt_study.workers.limits": "Limits",
        "evogt_study.operations.progress": "Event Listener",
        "evogt_study.analysis.statistics": "summary",
        "evogt_study.operations.verify": "verify",
    },
)
_MODULES = {"errors": "evogt_study.errors", "plots": "evogt_study.plots", "problems": "evogt_study.pde.problems"}

_GIVE_DATASETS = ("concat", "merge", "open", "replay", "run", "solve", "summary")
"""Names with which the accessor `ds.evogt` comes."""

__all__ = [
    "Dictionary", "Event", "Interval", "Lifting", "Limits", "Listener", "NaturalFace", "NonSeparable",
    "NonlinearReaction", "Potential", "Problem", "QuadratureRule", "Separable", "Statement", "Study", "Tensor",
    "compare", "concat", "errors", "evaluate", "merge", "observed_orders", "plots", "problems", "ranking",
    "replay", "run", "sample", "sensitivity", "shares_of_variance", "solve", "summary", "table", "together", "verdict",
    "verify",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _GIVE_DATASETS:
        import_module("evogt_study.accessor")
    if name in _MODULES:
        return import_module(_MODULES[name])
    return _named(name)


def __dir__() -> list[str]:
    return sorted([*__all__, "open"])  # which a star import would put in the place of Python's own
