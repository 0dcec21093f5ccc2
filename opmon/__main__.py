"""`python -m opmon` is `opmon`."""

from opmon.cli.main import main

if __name__ == "__main__":
    main()
