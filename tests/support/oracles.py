"""Plain, slow second opinions: every formula spelled out, nothing from `minispec`.

An oracle is worth something only while it is independent. Nothing here imports
`minispec`, uses a fused kernel or shares a helper with the code under test; loops are
welcome. All arithmetic is float64.

    GPT-2         naive_gpt_logits, naive_attention
    decoding      naive_decode, naive_copy_continuation
    sampling      naive_probs, naive_softmax
    the G test    g_statistic, g_limit
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Weights = Mapping[str, Array]


# ---------------------------------------------------------------------------
# GPT-2 (Radford et al. 2019), position by position and head by head
# ---------------------------------------------------------------------------


def naive_gpt_logits(  # -> [T, V]
    state_dict: Mapping[str, Any], config: Any, ids: Sequence[int]
) -> Array:
    """Logits after each of the T tokens, from a GPT-2 checkpoint's own tensors.

    `state_dict` has GPT-2's names (`h.0.attn.c_attn.weight`, [in, out], ...);
    `config` has the fields of a GPT-2 `config.json` as attributes.
    """
    weights = {
        name: np.asarray(tensor, dtype=np.float64)
        for name, tensor in state_dict.items()
    }
    stream = np.stack(
        [
            weights["wte.weight"][token] + weights["wpe.weight"][position]
            for position, token in enumerate(ids)
        ]
    )  # [T, E]
    for layer in range(config.n_layer):
        name = f"h.{layer}"
        calm = naive_layer_norm(weights, f"{name}.ln_1", config, stream)
        stream = stream + naive_attention(weights, f"{name}.attn", config, layer, calm)
        calm = naive_layer_norm(weights, f"{name}.ln_2", config, stream)
        stream = stream + naive_mlp(weights, f"{name}.mlp", config, calm)
    final = naive_layer_norm(weights, "ln_f", config, stream)
    head = weights["wte.weight" if config.tie_word_embeddings else "lm_head.weight"]
    return np.array([[row @ vector for vector in head] for row in final])


def naive_layer_norm(  # [T, E] -> [T, E]
    weights: Weights, name: str, config: Any, stream: Array
) -> Array:
    """(x - mean) / sqrt(variance + eps) * weight + bias; the variance is biased."""
    out = np.empty_like(stream)
    for t, x in enumerate(stream):
        mean = sum(x) / len(x)
        variance = sum((x - mean) ** 2) / len(x)
        unit = (x - mean) / math.sqrt(variance + config.layer_norm_epsilon)
        out[t] = unit * weights[f"{name}.weight"] + weights[f"{name}.bias"]
    return out


def naive_attention(  # [T, E] -> [T, E]
    weights: Weights, name: str, config: Any, layer: int, stream: Array
) -> Array:
    """Each head, each position: softmax(q . k / sqrt(D)) over itself and its past."""
    T, E = stream.shape
    D = E // config.n_head
    # c_attn's columns are [all queries | all keys | all values], each head by head
    joint = stream @ weights[f"{name}.c_attn.weight"] + weights[f"{name}.c_attn.bias"]
    mixed = np.zeros((T, E))
    for head in range(config.n_head):
        columns = slice(head * D, (head + 1) * D)
        queries = joint[:, :E][:, columns]
        keys = joint[:, E : 2 * E][:, columns]
        values = joint[:, 2 * E :][:, columns]
        for t in range(T):
            scores = []
            for s in range(t + 1):
                score = float(queries[t] @ keys[s]) / math.sqrt(D)
                if config.scale_attn_by_inverse_layer_idx:
                    score /= layer + 1
                scores.append(score)
            for s, share in enumerate(naive_softmax(scores)):
                mixed[t, columns] += share * values[s]
    return mixed @ weights[f"{name}.c_proj.weight"] + weights[f"{name}.c_proj.bias"]


def naive_softmax(scores: Sequence[float]) -> list[float]:
    """exp(score) / sum of exp(scores), shifted so that the largest exponent is 0."""
    peak = max(scores)
    grown = [math.exp(score - peak) for score in scores]
    return [value / sum(grown) for value in grown]


def naive_mlp(  # [T, E] -> [T, E]
    weights: Weights, name: str, config: Any, stream: Array
) -> Array:
    """activation(x @ c_fc + bias) @ c_proj + bias."""
    inner = stream @ weights[f"{name}.c_fc.weight"] + weights[f"{name}.c_fc.bias"]
    bend = NAIVE_ACTIVATIONS[config.activation_function]
    bent = np.array([[bend(x) for x in row] for row in inner])
    return bent @ weights[f"{name}.c_proj.weight"] + weights[f"{name}.c_proj.bias"]


NAIVE_ACTIVATIONS: dict[str, Callable[[float], float]] = {
    # the tanh approximation (Hendrycks and Gimpel 2016, section 2)
    "gelu_new": lambda x: (
        0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    # x times the standard normal distribution function at x
    "gelu": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    "relu": lambda x: max(x, 0.0),
}


# ---------------------------------------------------------------------------
# Decoding, one token after another and without a cache
# ---------------------------------------------------------------------------

Row = TypeVar("Row")  # the same in whatever form `choose` takes


def naive_decode(
    next_probs: Callable[[list[int]], Row],
    choose: Callable[[Row], int],
    prompt: Sequence[int],
    max_new_tokens: int,
    n_positions: int,
    eos_ids: Collection[int] = (),
) -> tuple[list[int], str]:
    """The new tokens and the reason they end, by the plainest loop there is."""
    text = list(prompt)
    while True:
        if len(text) > len(prompt) and text[-1] in eos_ids:
            return text[len(prompt) :], "eos"
        if len(text) == len(prompt) + max_new_tokens:
            return text[len(prompt) :], "length"
        if len(text) == n_positions + 1:  # the last token is never fed
            return text[len(prompt) :], "context"
        text.append(choose(next_probs(text)))


def naive_copy_continuation(
    prefix: Sequence[int], gamma: int, longest: int, shortest: int
) -> list[int]:
    """Prompt lookup by trying every place: longest suffix first, then latest place."""
    for size in range(longest, shortest - 1, -1):
        for start in range(len(prefix) - size - 1, -1, -1):
            if all(
                prefix[start + k] == prefix[len(prefix) - size + k] for k in range(size)
            ):
                followed = [prefix[i] for i in range(start + size, len(prefix))]
                return followed[:gamma]
    return []


# ---------------------------------------------------------------------------
# Sampling: one row of logits to one row of probabilities, token by token
# ---------------------------------------------------------------------------


def naive_probs(  # [V], [n] -> [V]
    logits: Sequence[float], sampling: Any, history: Sequence[int]
) -> list[float]:
    """The whole chain for the one row that has seen exactly `history`.

    `sampling` has the fields of `minispec.core.sampling.Sampling`.
    """
    scores = naive_scores(logits, sampling, history)
    ranked = sorted(range(len(scores)), key=lambda token: (-scores[token], token))
    if sampling.temperature == 0:
        return [1.0 if token == ranked[0] else 0.0 for token in range(len(scores))]
    peak = scores[ranked[0]]
    probs = naive_softmax([(score - peak) / sampling.temperature for score in scores])
    if sampling.top_k is not None:
        probs = naive_share(probs, ranked[: sampling.top_k])
    if sampling.top_p < 1:
        nucleus: list[int] = []
        while sum(probs[token] for token in nucleus) < sampling.top_p:
            nucleus.append(ranked[len(nucleus)])
        probs = naive_share(probs, nucleus)
    floor = sampling.min_p * max(probs)
    return naive_share(probs, [t for t, prob in enumerate(probs) if prob >= floor])


def naive_scores(
    logits: Sequence[float], sampling: Any, history: Sequence[int]
) -> list[float]:
    """Logits after the repetition penalty and the ban on an early EOS."""
    scores = []
    for token, score in enumerate(logits):
        if token in history:
            penalty = sampling.repetition_penalty
            score = score / penalty if score > 0 else score * penalty
        if token in sampling.eos_ids and len(history) < sampling.min_length:
            score = -math.inf
        scores.append(score)
    return scores


def naive_share(probs: Sequence[float], kept: Sequence[int]) -> list[float]:
    """Only the kept tokens, in their old proportions."""
    total = sum(probs[token] for token in kept)
    return [
        prob / total if token in kept else 0.0 for token, prob in enumerate(probs)
    ]


# ---------------------------------------------------------------------------
# The G test (likelihood ratio): do these counts come from this distribution?
# ---------------------------------------------------------------------------


def g_statistic(counts: Sequence[int], probs: Sequence[float]) -> float:
    """2 * sum of count * log(count / expected), chi-square with V - 1 degrees.

    Infinite where something came out that cannot.
    """
    total, statistic = sum(counts), 0.0
    for count, prob in zip(counts, probs, strict=True):
        if count and prob <= 0:
            return math.inf
        if count:
            statistic += 2 * count * math.log(count / (total * prob))
    return statistic


def g_limit(probs: Sequence[float]) -> float:
    """What `g_statistic` exceeds about once in a million times if the counts fit.

    Wilson and Hilferty's cube of a normal quantile (4.753), a little too generous.
    """
    degrees = sum(prob > 0 for prob in probs) - 1
    if degrees == 0:
        return 1e-6  # only one outcome: the statistic is 0 but for rounding
    spread = 2 / (9 * degrees)
    return float(degrees * (1 - spread + 4.753 * math.sqrt(spread)) ** 3)
