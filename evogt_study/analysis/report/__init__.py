"""HTML pages.

- `page`: what pages have in common
- `finding`: which label is best, and how sure that is
- `report`: the page of a result
- `overview`: several results on one page
"""
