"""What the terms of open problems cost: a step with advection or Newton's method, assembly with a tensor.

Prints, for one, two and three dimensions, milliseconds of processor time and ratios; the best of `--repeat`.

python tests/benchmarks/open_problems.py [--features N]
"""

import argparse
import time

import numpy as np

from evogt_study import pde
from evogt_study.pde.galerkin.retained_space import retain, trial_functions, weighted_svd
from evogt_study.pde.galerkin.system import assemble
from evogt_study.pde.integrators import INTEGRATORS
from evogt_study.pde.numerics.quadrature import QuadratureRule
from evogt_study.pde.numerics.time_grid import TimeGrid

POINTS = {1: 400, 2: 42, 3: 18}
BUBBLE = {1: "x*(1-x)", 2: "x*(1-x)*y*(1-y)", 3: "x*(1-x)*y*(1-y)*z*(1-z)"}
STEPS = 20


def best(repeat, compute):
    """The least of several processor times, in seconds."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        compute()
        times.append(time.process_time() - start)
    return min(times)


def space_of(dimension, features):
    """A retained space, as full as the features allow."""
    domain = pde.FormulaProblem(dimension, initial=BUBBLE[dimension])().domain
    rule = domain.quadrature(QuadratureRule("gauss_legendre", POINTS[dimension]))
    dictionary = pde.Dictionary("gtransnet", N=features, N1=2 * features, gamma=30.0 if dimension == 1 else 8.0)
    trial = trial_functions(domain, domain.features(dictionary, 0), rule)
    return retain(trial, weighted_svd(trial), 1e-12)


def steps(system, repeat):
    """Milliseconds of a step of the midpoint rule."""
    scheme = INTEGRATORS["implicit_midpoint"]()
    return 1e3 * best(repeat, lambda: scheme.march(system, TimeGrid(0.1, STEPS, ()))) / STEPS


def iterations(system):
    """Newton's iterations a step, counted by the reaction's derivatives."""
    count, linearised = [0], type(system.reaction).linearised

    def counted(*given):
        count[0] += 1
        return linearised(*given)

    type(system.reaction).linearised = counted
    INTEGRATORS["implicit_midpoint"]().march(system, TimeGrid(0.1, STEPS, ()))
    type(system.reaction).linearised = linearised
    return count[0] / STEPS


def report(dimension, features, repeat):
    """One dimension's lines of the table."""
    space = space_of(dimension, features)
    names = "xyz"[:dimension]

    def system(**terms):
        return assemble(space, pde.FormulaProblem(dimension, **{"initial": BUBBLE[dimension], **terms})())

    split, unsplit = "1 + sin(t)*x/2", "1 + sin(x*t)/2"
    linear, whole = steps(system(diffusion=split), repeat), steps(system(diffusion=unsplit), repeat)
    advected = steps(system(diffusion=split, advection=["1"] * dimension), repeat)
    reacting = system(diffusion=unsplit, reaction="u*(1-u)*(1+x*t)")
    newton, count = steps(reacting, repeat), iterations(reacting)
    scalar = best(repeat, lambda: system(diffusion="1+x"))
    rows = [["x*y/9" if i != j else f"1+{names[i]}" for j in range(dimension)] for i in range(dimension)]
    tensor = best(repeat, lambda: system(diffusion=rows)) if dimension > 1 else scalar
    print(
        f"| {dimension} | {space.rank} | {linear:.2f} | {advected / linear:.2f} | {whole:.2f} | {newton / whole:.2f}, "
        f"{count:.1f} iterations | {1e3 * scalar:.1f} | {tensor / scalar:.2f} |"
    )


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=int, default=240)
    parser.add_argument("--repeat", type=int, default=20)
    given = parser.parse_args()
    np.seterr(all="ignore")
    print("| d | r | step, ms | with advection | unsplit, ms | with a reaction | assembly, ms | with a tensor |")
    print("|---|---|---|---|---|---|---|---|")
    for dimension in (1, 2, 3):
        report(dimension, given.features, given.repeat)


if __name__ == "__main__":
    main()
