"""Measuring memories: benchmarks and a user's own questions, systems side by side, tables with intervals, and a page.

    cases     a memory to be made and the questions about it; a user's own file
    loaders   the files of published benchmarks -> cases, as streams
    measures  recall, ranks, overlap of answers, pass@k, stale values, and bootstrap intervals
    systems   memforest in every form, baselines, and the port for other packages
    retrieval the keyless track: what is found, resumable question by question
    answers   the track with models: answers, grades, budget, CSV
    tables    figures of runs and of the paper's own files, side by side
    page      a run as one HTML file
    commands  `memforest eval`

`docs/evaluation.md` says what each figure means and what it cannot say.
"""
