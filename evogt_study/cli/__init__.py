"""The command line.

- `main`: the commands
- `progress_display`: progress on the terminal
- `result_display`: results in lines of text
"""
