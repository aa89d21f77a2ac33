"""How many seeds are enough?  Runs how_many_seeds.toml and draws how the mean settles as seeds are added.

python studies/examples/how_many_seeds.py [PICTURE.png]
"""

import sys
from pathlib import Path

import evogt_study as evs


def main(picture: Path) -> None:
    """Run the study, print the mean of the first seeds and of all, and draw how it settles."""
    study = evs.Study.from_file(Path(__file__).with_suffix(".toml"))
    ds = evs.run(study)
    for count in (5, 20, 200):
        # of five seeds there is an interval only where it is asked for
        statistics = evs.summary(ds.error.isel(seed=slice(count)), over="seed", interval=evs.Interval(fewest=5))
        for dictionary in statistics.dictionary.values:
            one = statistics.sel(dictionary=dictionary)
            low, high = (float(end) for end in one["ci"])
            print(f"{count:>3} seeds, {dictionary}: mean {float(one['mean']):.2e}, interval {low:.2e} to {high:.2e}")
    picture.write_bytes(evs.plots.png(evs.plots.settling(ds)))


if __name__ == "__main__":  # workers are processes
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "how_many_seeds.png"))
