"""Networks: perceptrons, actor and critics, Q-networks with convolutions."""
