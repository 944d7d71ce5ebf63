"""Run the command line as `python -m delivery.cli`."""

from delivery.cli import main

if __name__ == "__main__":
    main()
