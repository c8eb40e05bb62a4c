"""The paper's own numbers, for columns beside ours."""
