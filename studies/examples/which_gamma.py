"""Which gamma?  Run which_gamma.toml, draw the error against the shape parameter, and print the best gamma.

python studies/examples/which_gamma.py [PICTURE.png]
"""

import sys
from pathlib import Path

import evogt_study as evs


def main(picture: Path) -> None:
    """Run the study, print the best gamma of each dictionary, and draw the errors."""
    study = evs.Study.from_file(Path(__file__).with_suffix(".toml"))
    ds = evs.run(study)
    mean = evs.summary(ds.error, over="seed")["mean"]
    for dictionary in mean.dictionary.values:
        best = mean.sel(dictionary=dictionary).idxmin("gamma")
        least = float(mean.sel(dictionary=dictionary, gamma=best))
        print(f"{dictionary}: gamma = {float(best):g}, mean error {least:.2e} over {ds.sizes['seed']} seeds")
    ds.evogt.plot("dependence", "error", x="gamma", hue="dictionary").savefig(picture, dpi=200)


if __name__ == "__main__":  # workers are processes
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "which_gamma.png"))
