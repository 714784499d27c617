"""What the arguments of Stable-Baselines3's TD3, SAC, DDPG and DQN are here, where gemrl has none of that name."""

from __future__ import annotations

_NO_SDE = "not available: there is no state-dependent exploration (gSDE)"
_NO_CHOICE = "not available: the observation space determines the network"
_NO_MEMORY_CHOICE = "not available: the memory is part of the algorithm"
_ADAM = "not available: the optimizer is Adam"

ARGUMENTS = {
    "action_noise": "here it is exploration_noise, the standard deviation for actions in [-1, 1]; 0 turns it off; sac has none",
    "ent_coef": "here it is learned: it starts at initial_temperature, and target_entropy_scale sets the entropy that it aims at",
    "exploration_fraction": "here it is exploration_steps, in environment steps",
    "exploration_initial_eps": "here it is always 1",
    "n_steps": "here it is depth; sac always has one step",
    "optimize_memory_usage": "not needed: each image is stored once",
    "policy_kwargs": "here it is fields of their own, such as net_arch",
    "replay_buffer_class": "not available: the memory is part of the algorithm; for HerReplayBuffer set hindsight=8",
    "replay_buffer_kwargs": _NO_MEMORY_CHOICE,
    "sde_sample_freq": _NO_SDE,
    "stats_window_size": "here it is always 100 episodes",
    "target_entropy": "here it is target_entropy_scale, times minus the number of action dimensions",
    "use_sde": _NO_SDE,
    "use_sde_at_warmup": _NO_SDE,
    "_init_setup_model": "not available: the constructor always makes the networks",
}
"""Arguments of the constructors."""

POLICY_ARGUMENTS = {
    "activation_fn": "here it is activation, such as Tanh(), a field of Perceptron",
    "clip_mean": _NO_SDE,
    "features_extractor_class": _NO_CHOICE,
    "features_extractor_kwargs": _NO_CHOICE,
    "log_std_init": _NO_SDE,
    "normalize_images": "here it is always so: bytes are divided by 255",
    "optimizer_class": _ADAM,
    "optimizer_kwargs": _ADAM,
    "share_features_extractor": "not available: actor and critics share no layers",
    "use_expln": _NO_SDE,
}
"""Keys of policy_kwargs."""

LOAD_ARGUMENTS = {
    "custom_objects": "here fields are arguments of their own, such as learning_rate=1e-4",
    "print_system_info": "not available: the versions that a run used are in its run.json",
}
"""Arguments of `load`."""

SB3_NAMES = ARGUMENTS | POLICY_ARGUMENTS | LOAD_ARGUMENTS
"""What each name is here."""
