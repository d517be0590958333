"""Steps that run here, without a model behind an endpoint: deterministic code and shipped word lists."""
