"""``python -m evogt_study`` is ``evogt``."""

from evogt_study.cli import main

if __name__ == "__main__":
    main(prog_name="evogt")
