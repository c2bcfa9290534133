"""`python -m headgate` is the `headgate` command."""

from headgate.cli.main import main

if __name__ == "__main__":
    main()
