"""Write HTML pages of results, and deposits for a repository of research data.

- `report` writes the HTML page of one result.
- `contents` collects the files of a deposit and the software versions of its results.
- `publish` writes or checks a deposit with CITATION.cff and RO-Crate.
"""
