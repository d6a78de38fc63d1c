"""Weights to and from the format of Hugging Face's transformers: config.json, safetensors, tokenizer.json.

One process, without a GPU, whatever layout the job has. `python -m training.hugging_face export|import`.
"""
