"""Describes policies as data, for export: one function for each family of agents and for each network.

A new family or body registers its function here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gemrl.agents.memory.dictionary import NEVER
from gemrl.agents.networks.batch_norm import BatchNormNetwork
from gemrl.agents.networks.body_network import BodyNetwork
from gemrl.agents.networks.convolution import Convolution
from gemrl.agents.networks.encoder import SMALLEST, Encoder
from gemrl.agents.networks.perceptron import EPSILON, MLP, Layer
from gemrl.agents.networks.q_networks import QNetwork
from gemrl.agents.networks.residual import ResidualNetwork
from gemrl.agents.networks.vision import Vision
from gemrl.agents.normalization import CLIP, Normalizer
from gemrl.agents.protocol import LearningAgent
from gemrl.algorithms.activations import ELU, Activation, ReLU, Tanh
from gemrl.algorithms.bootstraps import Acting, FirstNetwork, MeanOfMinima
from gemrl.algorithms.registry import (
    BaseRecipe,
    DictionaryRecipe,
    DiscreteRecipe,
    NearestRecipe,
    Recipe,
    SoftRecipe,
    TabularRecipe,
)
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout
from gemrl.core.policy_graph import GraphBuilder

FORBIDDEN = np.float32(1e30)
"""More than any score of an action."""

Describe = Callable[[GraphBuilder, Any, str], str]
"""Adds a network to a graph: builder, network, name of the input -> name of the output."""

DescribeFamily = Callable[[GraphBuilder, Any, Any, Layout, str], str]
"""Adds a policy: builder, recipe, learner, layout, name of the observation -> actions in [-1, 1], or a score per choice."""


def describe_agent(builder: GraphBuilder, agent: LearningAgent, layout: Layout, observation: str) -> str:
    """Adds the greedy policy of an agent; returns actions in [-1, 1] [B, A], or a score for each discrete action [B, A]."""
    describe: DescribeFamily = registered(FAMILIES, agent.recipe, "FAMILIES")
    if not layout.masked:
        return describe(builder, agent.recipe, agent.learner, layout, observation)
    state = builder.add("columns", observation, count=layout.unmasked.values)
    scores = describe(builder, agent.recipe, agent.learner, layout.unmasked, state)
    penalty = _penalty(builder, layout, observation)
    return builder.add("add", builder.add("cast", scores, dtype="float32"), penalty)


def _penalty(builder: GraphBuilder, layout: Layout, observation: str) -> str:
    """0 for actions that the mask behind observations allows, else -FORBIDDEN [B, A]."""
    chosen = np.zeros((layout.values, layout.choices), np.float32)
    chosen[-layout.choices :] = FORBIDDEN * np.eye(layout.choices, dtype=np.float32)
    arrays = builder.array("mask", chosen), builder.array("bias", np.full(layout.choices, -FORBIDDEN, np.float32))
    return builder.add("linear", builder.add("cast", observation, dtype="float32"), *arrays)


def registered(functions: Mapping[type, Any], described: object, where: str) -> Any:
    """The function for the class of `described`. Raises BadValue if there is none."""
    if type(described) not in functions:
        missing = f"add a function that describes it to gemrl.agents.describing.{where}"
        raise BadValue(f"a policy with {type(described).__name__} cannot be exported: {missing}")
    return functions[type(described)]


def _body(builder: GraphBuilder, network: BodyNetwork, x: str) -> str:
    return registered(BODIES, network, "BODIES")(builder, network, x)


def _linear(builder: GraphBuilder, layer: Layer, x: str) -> str:
    return builder.add("linear", x, builder.array("weight", layer.weight), builder.array("bias", layer.bias))


def _norm(builder: GraphBuilder, layer: Layer, x: str) -> str:
    """The layer's LayerNorm, if it has one."""
    if layer.scale is None or layer.shift is None:
        return x
    arrays = builder.array("scale", layer.scale), builder.array("shift", layer.shift)
    return builder.add("layer_norm", x, *arrays, epsilon=EPSILON)


ACTIVATIONS: dict[type[Activation], str] = {ReLU: "relu", ELU: "elu", Tanh: "tanh"}
"""The operation for each activation."""


def perceptron(builder: GraphBuilder, network: MLP, x: str) -> str:
    """A perceptron without a second input, which only critics have."""
    activation = registered(ACTIVATIONS, network.activation, "ACTIVATIONS")
    for layer in network.layers[:-1]:
        x = _linear(builder, layer, x)
        if network.norm_first:
            x = builder.add(activation, _norm(builder, layer, x))
        else:
            x = _norm(builder, layer, builder.add(activation, x))
    return _linear(builder, network.layers[-1], x)


def residual(builder: GraphBuilder, network: ResidualNetwork, x: str) -> str:
    """A residual network."""
    x = _linear(builder, network.entry, x)
    for block in network.blocks:
        hidden = builder.add("relu", _linear(builder, block.first, _norm(builder, block.first, x)))
        x = builder.add("add", x, _linear(builder, block.second, hidden))
    return _linear(builder, network.output, _norm(builder, network.output, x))


def batch_normed(builder: GraphBuilder, network: BatchNormNetwork, x: str) -> str:
    """A network with batch renormalization, which is a plain perceptron when it acts."""
    return perceptron(builder, network.fast(), x)


BODIES: dict[type[BodyNetwork], Describe] = {MLP: perceptron, ResidualNetwork: residual, BatchNormNetwork: batch_normed}
"""The function for each network that is built from a body."""


def _normalized(builder: GraphBuilder, normalizer: Normalizer | None, x: str) -> str:
    if normalizer is None:
        return x
    mean, variance = np.asarray(normalizer.mean), np.asarray(normalizer.variance)
    centred = builder.add("subtract", x, builder.array("mean", mean))
    scaled = builder.add("divide", centred, builder.array("deviation", (variance + 1e-8) ** 0.5))
    return builder.add("clip", scaled, *(builder.array("bound", np.float32(bound)) for bound in (-CLIP, CLIP)))


def continuous(builder: GraphBuilder, recipe: Recipe, learner: Any, layout: Layout, x: str) -> str:
    """The action of a deterministic policy, or the squashed mean of a Gaussian one."""
    actor, encoder, vision = learner.greedy
    x = _features(builder, vision, _normalized(builder, learner.normalizer, x))
    output = _body(builder, actor.body, _seen(builder, encoder, x))
    return builder.add("tanh", builder.add("columns", output, count=layout.action) if recipe.distribution.stochastic else output)


def _seen(builder: GraphBuilder, encoder: Encoder | None, x: str) -> str:
    """What an actor sees of observations: themselves, and their learned features, if there are any."""
    if encoder is None:
        return x
    features = x
    for layer in encoder.state[:-1]:
        features = builder.add("elu", _linear(builder, layer, features))
    features = builder.add("mean_normalize", _linear(builder, encoder.state[-1], features), smallest=SMALLEST)
    return builder.add("join", x, features)


def soft(builder: GraphBuilder, recipe: SoftRecipe, learner: Any, layout: Layout, x: str) -> str:
    """The squashed mean of a Gaussian policy, whose body also gives the standard deviation."""
    x = _features(builder, learner.critics.vision, _normalized(builder, learner.normalizer, x))
    output = _body(builder, learner.actor.body, x)
    return builder.add("tanh", builder.add("columns", output, count=layout.action))


def discrete(builder: GraphBuilder, recipe: DiscreteRecipe, learner: Any, layout: Layout, x: str) -> str:
    """The Q-values that a discrete agent acts on."""
    inputs = _image_and_numbers(builder, layout, _normalized(builder, learner.normalizer, x))
    values = [q_network(builder, member, *inputs) for member in learner.networks.members]
    if recipe.students:
        return builder.add("mean", *values[-recipe.n_pairs :])
    size = recipe.n_critics
    groups = [values[start : start + size] for start in range(0, recipe.n_pairs * size, size)]
    return registered(ACTING, recipe.acting, "ACTING")(builder, groups)


def _q_input(builder: GraphBuilder, layout: Layout, x: str) -> str:
    """Observations as the networks take them, but images with channels first: vectors [B, D], images [B, C, H, W]."""
    if layout.states:
        return _one_hot(builder, layout, x)
    if not layout.is_image:
        return x
    if not layout.channels_first:
        x = builder.add("transpose", x, axes=[0, 1, 4, 2, 3] if layout.stacks_channels else [0, 3, 1, 2])
    if layout.stacks_channels:
        height, width, channels = layout.image
        x = builder.add("reshape", x, shape=[channels, height, width])
    x = builder.add("cast", x, dtype="float32")
    return builder.add("divide", x, builder.array("white", np.float32(255))) if layout.dtype == "uint8" else x


def _image_and_numbers(builder: GraphBuilder, layout: Layout, x: str) -> tuple[str, str | None]:
    """Observations as the networks take them, as in `_q_input`, and the numbers that follow an image, if there are any."""
    if not layout.picture:
        return _q_input(builder, layout, x), None
    image = builder.add("reshape", builder.add("columns", x, count=layout.pixels), shape=list(layout.picture))
    image = _q_input(builder, layout.image_alone, builder.add("cast", image, dtype="uint8"))
    return image, builder.add("columns", x, start=layout.pixels, count=layout.numbers)


def _one_hot(builder: GraphBuilder, layout: Layout, x: str) -> str:
    return builder.add("one_hot", x, builder.array("states", np.arange(layout.states)))


def q_network(builder: GraphBuilder, network: QNetwork, x: str, numbers: str | None) -> str:
    """Q(s, .), from vectors [B, D], or images [B, C, H, W] and the numbers beside them."""
    x = _convolved(builder, network.convolutions, x)
    x = builder.add("join", x, numbers) if numbers else x
    for layer in network.trunk:
        x = builder.add("relu", _linear(builder, layer, x))
    *state, last = (perceptron(builder, stream, x) for stream in network.streams)
    return builder.add("add", state[0], builder.add("centre", last)) if state else last


def _features(builder: GraphBuilder, vision: Vision | None, x: str) -> str:
    """What actors see of observations: the features of images, or vectors as they are."""
    if vision is None:
        return x
    image, numbers = _image_and_numbers(builder, vision.layout, x)
    x = _convolved(builder, vision.centred, image)
    features = builder.add("tanh", _norm(builder, vision.last, _linear(builder, vision.last, x)))
    return builder.add("join", features, numbers) if numbers else features


def _convolved(builder: GraphBuilder, convolutions: Sequence[Convolution], x: str) -> str:
    """The outputs of convolutions as vectors, pixel by pixel, channels last; vectors if there are no convolutions."""
    if not convolutions:
        return x
    for convolution in convolutions:
        x = _convolution(builder, convolution, x)
    return builder.add("reshape", builder.add("transpose", x, axes=[0, 2, 3, 1]), shape=[-1])


def _convolution(builder: GraphBuilder, convolution: Convolution, x: str) -> str:
    """A convolution with ReLU; its filters become [O, C, size, size], as in ONNX and PyTorch."""
    weight, size = np.asarray(convolution.layer.weight), convolution.size
    filters = weight.reshape(size, size, -1, weight.shape[-1]).transpose(3, 2, 0, 1)
    arrays = builder.array("filters", filters), builder.array("bias", convolution.layer.bias)
    return builder.add("relu", builder.add("convolution", x, *arrays, stride=convolution.stride))


def mean_of_minima(builder: GraphBuilder, groups: Sequence[Sequence[str]]) -> str:
    """The smallest values of each group, averaged over groups."""
    return builder.add("mean", *(builder.add("minimum", *group) for group in groups))


def first_network(builder: GraphBuilder, groups: Sequence[Sequence[str]]) -> str:
    """The values of the first network."""
    return groups[0][0]


ACTING: dict[type[Acting], Callable[[GraphBuilder, Sequence[Sequence[str]]], str]] = {
    MeanOfMinima: mean_of_minima,
    FirstNetwork: first_network,
}
"""The function for each way to combine the Q-values of groups of networks."""


def tabular(builder: GraphBuilder, recipe: TabularRecipe, learner: Any, layout: Layout, x: str) -> str:
    """The mean of the tables."""
    return builder.add("rows", builder.array("table", learner.q.mean(0)), x)


def nearest(builder: GraphBuilder, recipe: NearestRecipe, learner: Any, layout: Layout, x: str) -> str:
    """The returns of the most similar states, for each action."""
    identity, key = _keys(builder, learner.projection, layout, x)
    columns = learner.columns
    tables = {"digests": columns.digest, "keys": columns.key, "returns": columns.value, "sizes": learner.sizes}
    arrays = (builder.array(role, table) for role, table in tables.items())
    return builder.add("neighbours", identity, key, *arrays, k=recipe.neighbours)


def _keys(builder: GraphBuilder, projection: np.ndarray | None, layout: Layout, x: str) -> tuple[str, str]:
    """Observations as they are hashed, and as their distances are measured."""
    if layout.states:
        known = None if projection is None else builder.array("projection", projection)
        return x, builder.add("rows", known, x) if known else _one_hot(builder, layout, x)
    flat = builder.add("cast", builder.add("reshape", x, shape=[-1]), dtype="float32")
    flat = builder.add("add", flat, builder.array("zero", np.float32(0)))  # turns -0.0 into 0.0
    identity = flat if layout.dtype == "float32" else x
    if layout.dtype == "uint8":
        flat = builder.add("divide", flat, builder.array("white", np.float32(255)))
    if projection is None:
        return identity, flat
    arrays = builder.array("projection", projection), builder.array("bias", np.zeros(projection.shape[1], np.float32))
    return identity, builder.add("linear", flat, *arrays)


def dictionary(builder: GraphBuilder, recipe: DictionaryRecipe, learner: Any, layout: Layout, x: str) -> str:
    """The weighted values of the nearest keys, for each action."""
    inputs = _image_and_numbers(builder, layout, _normalized(builder, learner.normalizer, x))
    embedded, rows = q_network(builder, learner.embedding.network, *inputs), learner.dictionary
    filled, sizes = np.asarray(rows.used) != NEVER, np.asarray(rows.sizes)
    tables = {"keys": np.asarray(rows.key)[filled], "values": np.asarray(rows.value)[filled], "sizes": sizes}
    arrays = (builder.array(role, table) for role, table in tables.items())
    return builder.add("keys", embedded, *arrays, k=recipe.neighbours, delta=recipe.delta)


FAMILIES: dict[type[BaseRecipe], DescribeFamily] = {
    Recipe: continuous,
    SoftRecipe: soft,
    DiscreteRecipe: discrete,
    TabularRecipe: tabular,
    NearestRecipe: nearest,
    DictionaryRecipe: dictionary,
}
"""The function for each recipe class."""
