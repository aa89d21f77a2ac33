"""HTML pages of results, and deposits for a repository of research data.

- `report`: the page of one result
- `contents`: files of a deposit, with the software versions that computed the result
- `publish`: writes a deposit with CITATION.cff and RO-Crate, and checks a deposit
"""
