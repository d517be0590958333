"""The paper's flat retrieval of facts."""
