"""`python -m lamina`: the command `lamina`, for environments in which its script is not on the path."""

from lamina.cli import main

if __name__ == "__main__":
    main()
