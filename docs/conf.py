"""Settings of the documentation: ``sphinx-build -W docs build/site`` makes it from these pages and the docstrings."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

import sphinx_autosummary_accessors

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

project = "evogt_study"
author = copyright = "the evogt_study developers"
version = release = installed_version("evogt-study")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx_autosummary_accessors",
    "sphinx_click",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "declared_tables",
    "executed_notebooks",
    "included_markdown",
    "internal_links",
    "mathml",
    "plain_docstrings",
]
exclude_patterns = ["_extensions", "_templates", "figures_gallery", "joss"]
templates_path = ["_templates", sphinx_autosummary_accessors.templates_path]
default_role = "literal"  # in the commands' help
smartquotes = False  # a long option has two hyphens
nitpicky = False  # types in signatures are names of other packages, whose pages no build should fetch

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_fence_as_directive = ["math"]  # as it is written for pages that are read where the code is kept
myst_heading_anchors = 3
nb_execution_mode = "off"  # executed_notebooks does, once for the tests and the site
nb_merge_streams = True

autodoc_typehints = "none"  # they stand in the signature
autodoc_member_order = "bysource"
autosummary_generate = True
python_use_unqualified_type_names = True
doctest_global_setup = """
import numpy as np
import xarray as xr
import evogt_study as evs
from evogt_study import *
from evogt_study.pde import *
"""

sphinx_gallery_conf = {
    "examples_dirs": "figures_gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/(plot|with_matplotlib)_",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("matplotlib", "gallery_figures"),
    "capture_repr": (),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "notebook_extensions": set(),
    "show_memory": False,
    "min_reported_time": 1e6,  # no times on the pages
    "show_signature": False,
    "write_computation_times": False,
    "matplotlib_animations": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "evogt_study"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"  # no script and no network
html_show_sourcelink = False
PAGES_WITHOUT_SUBPAGES = ("getting_started", "comparison", "citation", "contributing", "changelog")
html_sidebars = {
    "**": ["page-toc", "sidebar-nav-bs"],
    **{key: ["page-toc"] for key in PAGES_WITHOUT_SUBPAGES},
    "index": [],
    "search": [],
    "genindex": [],
}
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "secondary_sidebar_items": [],
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 6,
    "show_prev_next": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
