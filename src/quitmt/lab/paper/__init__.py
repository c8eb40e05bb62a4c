"""The QUIT study's own numbers, to stand beside ours."""
