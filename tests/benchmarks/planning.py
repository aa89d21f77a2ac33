"""Print the processor seconds of making the run keys of large plans.

    python tests/benchmarks/planning.py [SCALE]

SCALE divides the number of seeds, points and values along the longest axes (default 1: a million cases in each plan).
The designs: 100,000 setups of the PDE method with 10 seeds; 10 setups with 100,000 seeds; a sample of 100,000 points
with 10 seeds; the same number of setups as in the first design where a rule depends on each axis, with 1 seed; and a
user function of seven arguments.
"""

import sys
import time

import evogt_study as evs
from evogt_study.study.plan import study_plan

PDE = """
name = "planning"
problem = "oscillatory_1d"
{design}
[constants]
dictionary = "gtransnet"
epsilon = 0.1
final_time = 0.25
dt = 0.0025
"""
GRID = """
[axes]
N = {{ start = 20, count = 10 }}
N1 = {{ start = 100, count = 10 }}
quadrature = {{ start = 100, count = {size} }}
validation = {{ start = 300, count = 10 }}
seed = {{ count = {seeds} }}
"""
SAMPLE = """
[[sample]]
name = "draw"
rule = "latin_hypercube"
count = {size}
N = {{ integers = {{ from = 20, to = 100 }} }}
gamma = {{ from = 10, to = 30 }}
tau = {{ from = 1e-13, to = 1e-11 }}
[axes]
seed = {{ count = 10 }}
"""
RULE = "[[when]]\nmatch = { N = 20, N1 = 100, quadrature = 100, validation = 300 }\nset = { tau = 1e-11 }\n"
RULES = "N1 = 240\nquadrature = 320\nvalidation = 512\n"


def method(a, b, c, d, e, f, seed):
    return 0.0


def make_plans(scale):
    """The plans by name, made one after the other."""
    size, seeds = 100 // scale, 100_000 // scale
    grid = PDE.format(design=GRID.format(size=size, seeds=10))
    yield "100,000 setups x 10 seeds", grid + "gamma = 20\n"
    some = f"[axes]\nN = {{ start = 20, count = 10 }}\nseed = {{ count = {seeds} }}"
    yield "10 setups x 100,000 seeds", PDE.format(design=some) + "gamma = 20\n" + RULES
    yield "sample of 100,000 points x 10 seeds", PDE.format(design=SAMPLE.format(size=seeds)) + RULES
    yield (
        "100,000 setups, rules on all axes",
        PDE.format(design=GRID.format(size=size, seeds=1)) + "gamma = 20\n" + RULE,
    )
    axes = {name: range(10) for name in "abcdef"} | {"seed": range(max(1, 10 // scale))}
    yield "user function, seven axes", evs.Study(method, axes={**axes, "a": [0]})


if __name__ == "__main__":
    for name, given in make_plans(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
        plan = study_plan(given if isinstance(given, evs.Study) else evs.Study.from_text(given))
        start = time.process_time()
        keys = plan.keys
        print(f"{name}: {time.process_time() - start:.2f} s, {len(keys):,} keys")
