"""Memories: the ring of transitions with its frames and minibatches, and the tables of episodic control."""
