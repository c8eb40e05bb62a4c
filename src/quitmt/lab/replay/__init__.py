"""What every rule would have done on the pools, how much that costs, and how much it loses."""
