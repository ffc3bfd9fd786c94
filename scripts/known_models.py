"""The checkpoints that `download_weights.py` knows by name.

Revisions, sizes and SHA-256 are those of the hub's listings. Of the configs only the
first half of each hash is published; the exact sizes of the two largest files are not:
their hashes decide alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hub import Pin

VOCABULARY = {
    "vocab.json": Pin(
        1042301, "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"
    ),
    "merges.txt": Pin(
        456318, "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"
    ),
}


@dataclass(frozen=True)
class Model:
    """A repository of the hub at one revision, and what is known of its files."""

    repo: str
    revision: str = "main"
    pins: dict[str, Pin] = field(default_factory=dict)

    def pin(self, name: str) -> Pin:
        return self.pins.get(name, Pin())


def _known(repo: str, revision: str, config: Pin, weights: Pin, **more: Pin) -> Model:
    pins = VOCABULARY | {"config.json": config, "model.safetensors": weights}
    if more:
        pins["pytorch_model.bin"] = more["pickle"]
    return Model(repo, revision, pins)


MODELS = {
    "distilgpt2": _known(
        "distilbert/distilgpt2",
        "2290a62682d06624634c1f46a6ad5be0f47f38aa",
        Pin(762, "4ec5947c1d59fee6"),
        Pin(
            352824413,
            "e1ff18884359fe8beb795a5f414feb85a6ce3d929ad019c0d958c039d2b94a1b",
        ),
        pickle=Pin(
            None, "ecbb4e22dd2b9dcc43b2622e1b87ebb9361fb31e496b98ea01a38785c1dbaa01"
        ),
    ),
    "gpt2": _known(
        "openai-community/gpt2",
        "607a30d783dfa663caf39e06633721c8d4cfcd7e",
        Pin(665, "0daed7749b4f02b8"),
        Pin(
            548105171,
            "248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707",
        ),
        pickle=Pin(
            548118077,
            "7c5d3f4b8b76583b422fcb9189ad6c89d5d97a094541ce8932dce3ecabde1421",
        ),
    ),
    "gpt2-medium": _known(
        "openai-community/gpt2-medium",
        "6dcaa7a952f72f9298047fd5137cd6e4f05f41da",
        Pin(718, "ef1a44d889ad1a0a"),
        Pin(
            1519984962,
            "fc5a354a19255ad494f3d71549390baca1ccf61d1d822b9408971705c687c9cd",
        ),
    ),
    "gpt2-large": _known(
        "openai-community/gpt2-large",
        "32b71b12589c2f8d625668d2335a01cac3249519",
        Pin(666, "7fccdcfd66220553"),
        Pin(None, "5f47f3e12f91cd33b662ce7e433b6150ad5512b5884a2cee961b50e9c3bbebce"),
        pickle=Pin(
            3247202234,
            "8d3ade6b55ac440e926112267b9ec784097437c7300544b8beec562a411428ec",
        ),
    ),
    "gpt2-xl": _known(
        "openai-community/gpt2-xl",
        "15ea56dee5df4983c59b2538573817e1667135e2",
        Pin(689, "be48115d52314bc2"),
        Pin(None, "0f8b28eb05a8075f48b61b6f35332978c74fc7763fa9fb4051a1c30511736a6a"),
        pickle=Pin(6431878936),
    ),
}
