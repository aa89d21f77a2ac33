"""Figures of `ds.evogt.plot` for the gallery, which otherwise shows figures of pyplot only."""

from typing import Any

from sphinx_gallery.scrapers import figure_rst

from evogt_study.plots.canvas import DisplayedFigure


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the figures among the names of a script, and return the text that shows them."""
    paths = []
    for value in block_vars["example_globals"].values():
        if isinstance(value, DisplayedFigure):
            paths.append(next(block_vars["image_path_iterator"]))
            value.savefig(paths[-1], dpi=200)
    return figure_rst(paths, gallery_conf["src_dir"])


def _get_sg_image_scraper() -> Any:
    return scrape
