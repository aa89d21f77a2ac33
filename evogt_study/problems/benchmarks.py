"""The paper's problems in one dimension that have names of their own."""

from evogt_study.problems.statement import Statement

# eq:1d_multi, tab:main1d: one solution, a coefficient of scale epsilon
oscillatory_1d = Statement(
    name="oscillatory_1d",
    dimension=1,
    exact="exp(-t)*sin(16*pi*x)",
    diffusion="1 + cos(2*pi*x/epsilon)/2",
    final_time=0.25,
)
# tab:epsdep1d: a solution with a component of scale epsilon; 2/epsilon has to be an integer, else it is not zero at 1
target_1d = Statement(
    name="target_1d",
    dimension=1,
    exact="exp(-t)*(sin(pi*x) + sin(2*pi*x/epsilon)/5)",
    diffusion="1e-3",
    final_time=0.25,
)
BUILT_IN = {statement.name: statement for statement in (oscillatory_1d, target_1d)}
