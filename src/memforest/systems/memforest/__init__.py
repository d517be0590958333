"""The MemForest index: routing into trees, recall, browse, score flow, time order."""
