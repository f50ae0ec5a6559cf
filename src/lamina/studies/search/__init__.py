"""The search for the best settings: every combination of some values of a config, each with several seeds.

    [search]
    seeds = 6
    data.batch_examples = [16, 32]
    schedule.learning_rate = [1e-5, 3e-5, 1e-4]
    train.epochs = [3, 5, 8]

The runs are trained in parallel and reused like those of a comparison (see `lamina.studies.compare`).
"""
