"""Advice: which residual scheme, depth and learning rate suit a model and its data, found out within a budget of time.

1. `candidates`: combinations of schemes, depths and learning rates. Models of all depths have about as many parameters
   as that of the config; the width differs.
2. `ladder`: what the budget allows: how many candidates are trained, for how many steps.
3. `examination`: candidates whose diagnosis at initialisation expects failure are ruled out.
4. `trials`: the others are trained for a few steps; the better third continues, three times as long; the last two are
   trained with several seeds.
5. `outcome`: the best by validation loss; where no finalist is better with every seed, the one nearest to the config.

The budget is the time that all runs and diagnoses take together: of the processor, so that neither other programs on
the machine nor the number of cores change the result, or by the clock where a GPU trains. With n cores the wait is
shorter. Starting Python and preparing data are not counted.
"""
