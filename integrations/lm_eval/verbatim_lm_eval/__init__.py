"""verbatim as a model of EleutherAI's lm-evaluation-harness.

    lm_eval --model verbatim --model_args model=model.bin,threads=8 --tasks ...

hook.py tells the harness of the model, model.py is the model, process.py talks to `run`.
"""
