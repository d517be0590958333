"""Front ends for other programs: what their clients call, over the verbs of memforest."""
