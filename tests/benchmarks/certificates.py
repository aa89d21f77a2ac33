"""What bound, estimate and budget add to a run: of `pde.solve`, alone in a study, and in the order of a study.

    OPENBLAS_NUM_THREADS=1 python tests/benchmarks/certificates.py [PROBLEM]... [--repeat N]

Runs of the paper's linear studies, each as it is and with `error_bound`, `error_estimate` and the four parts of the
budget, in turns.  Prints processor milliseconds of a run, the median of N, and what the certificates add to it.
`solve` measures errors at every step, as it does by default, and makes a Dataset; a study's run, at its start and end;
for the study's order those of three seeds, stages shared as a worker shares them.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import evogt_study as evs
from evogt_study import pde
from evogt_study.methods.loading import load_method
from evogt_study.methods.protocol import Output
from evogt_study.pde.certificates.budget import BUDGET
from evogt_study.pde.pipeline import afresh
from evogt_study.workers.stage_cache import StageCache

PAPER = Path(__file__).parents[2] / "studies" / "paper"
PROBLEMS = {
    "oscillatory_1d": {"gamma": 20.0},
    "target_1d": {"gamma": 36.0},
    "operator_2d": {},
    "nonseparable_2d": {},
    "nonseparable_3d": {},
}
"""Studies, and a gamma where a pilot would choose it."""
ASKED = ("error_bound", "error_estimate", *BUDGET)
SEEDS = 3


def cases(name):
    """The study's first seeds in its order, and its method without and with the certificates."""
    study = evs.Study.from_file(PAPER / f"{name}.toml")
    *_, space = study.provisional_spaces()
    axes = tuple(replace(axis, values=axis.values[:SEEDS]) if axis.name == "seed" else axis for axis in space.axes)
    space = replace(space, axes=axes)
    values = [dict(each) | PROBLEMS[name] for at in range(space.size) if (each := space.values(at)) is not None]
    dictionaries = list(dict.fromkeys(each["dictionary"] for each in values))
    values.sort(key=lambda each: (dictionaries.index(each["dictionary"]), each["seed"]))
    methods = [load_method(replace(study.spec, output=Output(record=record))) for record in ((), ASKED)]
    return values, methods


def milliseconds(method, values, share):
    started = time.process_time()
    if isinstance(share, StageCache):
        share.start(repr(sorted(values.items(), key=lambda item: item[0])))
    method.bind(values).run(share)
    return 1e3 * (time.process_time() - started)


def solved(method, values, certificates):
    """Milliseconds of the same run by `evogt_study.pde.solve`."""
    problem, run = method.problem(values), method.bind(values).discretisation
    started = time.process_time()
    pde.solve(
        problem, run.dictionary, run.seed, tau=run.tau, quadrature=run.quadrature, validation=run.validation,
        dt=run.grid.dt, final_time=run.grid.final_time, certificates=certificates,
    )  # fmt: skip
    return 1e3 * (time.process_time() - started)


def in_order(values, methods):
    """Milliseconds of a run on average, each method with stages of its own."""
    pairs = [(method, StageCache()) for method in methods]
    return [np.mean([milliseconds(method, each, share) for each in values]) for method, share in pairs]


def told(name, kind, plain, certified):
    added = certified - plain
    print(f"| {name} | {kind} | {plain:.1f} | {added:.1f} | {100.0 * added / plain:.0f} % |", flush=True)


def main():
    parser = argparse.ArgumentParser(description="The cost of certificates; see the head of this file.")
    parser.add_argument("problems", nargs="*", default=list(PROBLEMS))
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print("| study | runs | ms | certificates add | |\n|---|---|---|---|---|")
    with threadpool_limits(1), np.errstate(all="ignore"):
        for name in options.problems:
            values, methods = cases(name)
            for dictionary in dict.fromkeys(each["dictionary"] for each in values):
                case = next(each for each in values if each["dictionary"] == dictionary)
                for method in methods:
                    milliseconds(method, case, afresh)
                taken = [[solved(methods[0], case, asked) for asked in (False, ASKED)] for _ in range(options.repeat)]
                told(name, f"{dictionary}, `solve`", *np.median(taken, axis=0))
                taken = [[milliseconds(method, case, afresh) for method in methods] for _ in range(options.repeat)]
                told(name, f"{dictionary}, of a study", *np.median(taken, axis=0))
            totals = np.median([in_order(values, methods) for _ in range(options.repeat)], axis=0)
            told(name, "in the study's order", *totals)


if __name__ == "__main__":
    main()
