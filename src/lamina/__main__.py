"""The start of the command `lamina`, and of `python -m lamina`.

Imports take seconds. So a signal that asks a training run to save and stop is recorded from here on, where by default
it would end the process as if it had crashed.
"""

import sys
from contextlib import ExitStack

from lamina.training.signals import remember_early


def main() -> None:
    with ExitStack() as stack:
        if sys.argv[1:2] == ["train"]:
            stack.enter_context(remember_early())
        from lamina.cli import main as run_command

        run_command()


if __name__ == "__main__":
    main()
