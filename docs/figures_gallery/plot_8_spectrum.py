"""
Singular values and the cut
===========================

The kind ``spectrum`` draws the singular values of the weighted features, and the cuts at sqrt(tau).  A study has them
if its ``record`` names ``singular_values``.
"""

import evogt_study as evs

study = evs.Study(
    problem="oscillatory_1d",
    axes={"dictionary": ["transnet", "gaussian_rf"], "seed": range(3)},
    constants={"epsilon": 0.2, "N": 80, "gamma": 8, "quadrature": 320, "validation": 320, "dt": 0.1, "final_time": 0.1},
    output={"record": ["singular_values"]},
)
ds = evs.run(study)
figure = ds.evogt.plot("spectrum")
