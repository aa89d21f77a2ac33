"""The PDE method of the paper, Evo-GTransNet, and its baselines.  Entry points register all methods.

The result of one run is a labelled Dataset:

>>> from evogt_study import pde
>>> problem = pde.problems.oscillatory_1d(epsilon=0.1)
>>> dictionary = pde.Dictionary("gtransnet", N=60, N1=240, gamma=20)
>>> ds = pde.solve(problem, dictionary, seed=0, tau=1e-12, quadrature=320, dt=2.5e-3)
>>> print(f"error {float(ds.error):.2e} at rank {int(ds['rank'])}")
error 5.43e-04 at rank 48

- `single_run`: `solve` and `evaluate`, one run as a Dataset
- `advise`: advice on the main cause of the error and on the change with the largest gain
- `command`: `evogt advise`
- `pipeline`: the stages of the method and their keys
- `methods`: methods that a study can name, and formula problems as the kind of problem
- `baselines`: methods for comparison, and references for errors
- `certificates`: a posteriori bounds and estimates of the error
- `problems`: formula problems
- `integrators`: time integrators by name
- `galerkin`: the Galerkin system of a problem on the retained space
- `domains`: domains by name
- `dictionaries`: dictionaries of features by name
- `numerics`: arrays, quadrature rules and time steps

The package imports each of its public names when the name is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evogt_study.registry import make_lazy_import

if TYPE_CHECKING:
    from evogt_study.pde import problems
    from evogt_study.pde.dictionaries.base import Dictionary, evaluate_features
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
    from evogt_study.pde.numerics import QuadratureRule
    from evogt_study.pde.problems.fields import Field, FieldTerms
    from evogt_study.pde.problems.formula_problem import FormulaProblem
    from evogt_study.pde.single_run import evaluate, solve

__all__ = [
    "Dictionary", "Field", "FieldTerms", "FormulaProblem", "Lifting", "NaturalFace", "NonSeparable",
    "NonlinearReaction", "Potential", "Problem", "QuadratureRule", "Separable", "Tensor", "evaluate",
    "evaluate_features", "problems", "solve",
]  # fmt: skip

__getattr__ = make_lazy_import(__name__, __file__)


def __dir__() -> list[str]:
    return sorted(__all__)
