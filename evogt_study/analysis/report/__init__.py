"""HTML pages.

- `page`: what pages have in common
- `report`: the page of a result
"""
