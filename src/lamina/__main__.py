"""`python -m lamina`: the command, where no script is on the path."""

from lamina.cli import main

if __name__ == "__main__":
    main()
