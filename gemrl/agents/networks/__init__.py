"""Networks: network bodies, actor and critics, Q-networks with convolutions."""
