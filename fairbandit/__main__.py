"""`python -m fairbandit` is the command `fairbandit`."""

from fairbandit.cli.main import main

if __name__ == "__main__":
    main()
