"""Files: lines of text, pools, outcomes, and the journal of a run."""
