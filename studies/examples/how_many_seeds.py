"""How many seeds are enough?  Run how_many_seeds.toml and draw the median against the number of seeds.

python studies/examples/how_many_seeds.py [PICTURE.png]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import xarray as xr

import evogt_study as evs


def main(picture: Path) -> None:
    """Run the study, print means with confidence intervals, and draw the median against the number of seeds."""
    study = evs.Study.from_file(Path(__file__).with_suffix(".toml"))
    ds = evs.run(study)
    for count in (5, 20, 200):
        statistics = evs.summary(ds.error.isel(seed=slice(count)), over="seed")
        for dictionary in statistics.dictionary.values:
            one = statistics.sel(dictionary=dictionary)
            low, high = (float(end) for end in one["ci"])
            print(f"{count:>3} seeds, {dictionary}: mean {float(one['mean']):.2e}, interval {low:.2e} to {high:.2e}")
    sizes = (6, 10, 15, 20, 30, 50, 75, 100, 150, 200)
    first = [evs.summary(ds.error.isel(seed=slice(n)), statistics=["median", "median_ci"]) for n in sizes]
    growing = xr.concat(first, xr.DataArray(list(sizes), dims="n", name="n"))
    figure, axes = plt.subplots(figsize=(4.5, 3), layout="constrained")
    for name, one in growing.groupby("dictionary"):
        axes.plot(one.n, one["median"].squeeze(), marker=".", label=name)
        axes.fill_between(one.n, *one["median_ci"].squeeze().transpose("bound", "n"), alpha=0.2)
    axes.set(xlabel="number of seeds", ylabel="median of the relative error", xscale="log", yscale="log")
    axes.legend()
    figure.savefig(picture, dpi=200)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "how_many_seeds.png"))
