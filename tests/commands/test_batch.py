"""`minispec batch`: each text as `generate` writes it; what fails stops no other."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minispec.commands.cli import main

Cli = Callable[..., tuple[str, str]]
Pair = list[str]


def prompts(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "prompts"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def objects(out: str) -> dict[int, dict[str, Any]]:
    return {one["index"]: one for one in map(json.loads, out.splitlines())}


@pytest.mark.parametrize("drafter", ["model", "ngram", "none"])
def test_each_text_is_the_one_that_generate_writes(
    cli: Cli, tmp_path: Path, pair: Pair, drafter: str
) -> None:
    lines = "to be or not", "ROMEO:", json.dumps({"prompt": "a\nb", "seed": 9})
    file = prompts(tmp_path, *lines, '{"prompt": "c", "tokens": 3, "temperature": 0}')
    how = [*pair, "--drafter", drafter, "--gamma", "3"]
    out, err = cli("batch", "--prompts", file, "--tokens", "12", "--rows", "2", *how)
    assert "4 of 4 texts, 39 tokens" in err and err.endswith("done\n")
    alone = [
        ("to be or not", "12", "1", "0.8"),
        ("ROMEO:", "12", "2", "0.8"),
        ("a\nb", "12", "9", "0.8"),
        ("c", "3", "4", "0"),
    ]
    found = objects(out)
    for index, (prompt, tokens, seed, warm) in enumerate(alone):
        asked = ["--tokens", tokens, "--seed", seed, "--temperature", warm]
        text, _ = cli("generate", "--prompt", prompt, *asked, *how)
        assert text == f"{prompt}{found[index]['text']}\n"


def test_a_line_that_fails_is_named_and_the_others_go_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, pair: Pair
) -> None:
    faulty = {
        '{"prompt": 3}': '"prompt" must be a text, got 3',
        '{"prompt": ""}': "empty",
        '{"prompt"': "not JSON",
        '{"prompt": "a", "lenght": 3}': "no field 'lenght'",
        '{"prompt": "a", "seed": "x"}': "seed must be a whole number",
        '{"prompt": "a", "gamma": 0}': "gamma must be at least 1",
        '{"prompt": "a", "eos_ids": [1.5]}': "EOS id must be a whole number",
        '{"prompt": "a", "eos_ids": [3, 257]}': "eos_ids must be below 257, got 257",
        '{"prompt": "a", "temperature": -1}': "temperature must be",
        f'{{"prompt": "a", "temperature": 1{"0" * 330}}}': "too large",
        '{"prompt": "\\ud800"}': "or both of its \\u escapes",
        f'{{"prompt": "a", "seed": {"1" * 5000}}}': "a number that is far too long",
        '{"prompt": "a", "tokens": true}': "tokens takes numbers, got true",
        '{"prompt": "a", "temperature": false}': "temperature takes numbers, got false",
        '{"prompt": "a", "eos_ids": [2, true]}': "eos_ids takes numbers, got [2, true]",
        "x" * 200: "shorten the prompt",
    }
    file = prompts(tmp_path, *faulty, "fine")
    assert main(["batch", "--prompts", file, "--tokens", "4", *pair]) == 1
    found = objects(capsys.readouterr().out)
    assert [*sorted(found)] == [*range(len(faulty) + 1)]
    for index, expected in enumerate(faulty.values()):
        assert expected in found[index]["error"]
    assert found[len(faulty)]["tokens"] == 4


def test_nothing_that_ended_is_lost_on_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pair: Pair
) -> None:
    class Impatient(io.StringIO):
        pressed = False

        def flush(self) -> None:
            if self.getvalue().count("\n") == 2 and not self.pressed:
                self.pressed = True
                raise KeyboardInterrupt

    output = Impatient()
    monkeypatch.setattr("sys.stdout", output)
    file = prompts(tmp_path, *"abcde")
    status = main(["batch", "--prompts", file, "--rows", "1", "--tokens", "3", *pair])
    assert status == 130 and len(objects(output.getvalue())) == 2


def test_a_folder_that_is_not_read_is_mentioned(
    cli: Cli, tmp_path: Path, pair: Pair
) -> None:
    file = prompts(tmp_path, "a")
    how = ["--tokens", "2", *pair, "--drafter", "none"]
    _, err = cli("batch", "--prompts", file, *how)
    assert "--draft is not used with --drafter none" in err


def test_a_file_without_prompts(fails: Callable[..., str], tmp_path: Path) -> None:
    file = prompts(tmp_path, "", "  ")
    assert "holds no prompt" in fails("batch", "--prompts", file)
