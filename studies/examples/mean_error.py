"""Error of the mean of heavy-tailed data."""

import numpy as np

import evogt_study as evs


def mean_error(n, tail, seed=0):
    """Error of the mean of n random numbers whose distribution has tail index `tail`."""
    return {"error": abs(np.random.default_rng(seed).standard_t(tail, size=n).mean())}


study = evs.Study(mean_error, axes={"n": [10, 100, 1000], "tail": [2, 30], "seed": range(20)})
ds = evs.run(study, output="mean_error.nc")
print(ds.error.median("seed").to_pandas())
ds.evogt.plot("dependence", x="n", hue="tail").savefig("mean_error.png")
