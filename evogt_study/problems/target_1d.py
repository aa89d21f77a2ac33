"""Benchmark whose solution has a component of scale epsilon (tab:epsdep1d); 2/epsilon has to be an integer."""

from evogt_study.problems.statement import Statement

target_1d = Statement(
    name="target_1d",
    dimension=1,
    exact="exp(-t)*(sin(pi*x) + sin(2*pi*x/epsilon)/5)",
    diffusion="1e-3",
    final_time=0.25,
)
