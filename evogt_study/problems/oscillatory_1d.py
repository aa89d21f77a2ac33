"""Oscillatory-coefficient benchmark (eq:1d_multi, tab:main1d): one solution, a coefficient of scale epsilon."""

from evogt_study.problems.statement import Statement

oscillatory_1d = Statement(
    name="oscillatory_1d",
    dimension=1,
    exact="exp(-t)*sin(16*pi*x)",
    diffusion="1 + cos(2*pi*x/epsilon)/2",
    final_time=0.25,
)
