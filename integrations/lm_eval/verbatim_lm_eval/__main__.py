"""The harness' command line with the model "verbatim", where the .pth file is not installed:
python -m verbatim_lm_eval --model verbatim ..."""

import verbatim_lm_eval.hook  # noqa: F401


def main():
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()


if __name__ == "__main__":
    main()
