"""The episodic memory: a ring of transitions, its frames, minibatches and refreshes."""
