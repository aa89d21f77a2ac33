"""HTML pages.

- `page`: what pages have in common
- `mathml`: formulas, typeset
- `equation`: the problem of a study, typeset
- `finding`: which label is best, and how sure that is
- `report`: the page of a result
- `overview`: several results on one page
"""
