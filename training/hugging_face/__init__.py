"""Convert weights to and from the format of Hugging Face's transformers: config.json, safetensors, tokenizer.json.

It runs in one process without a GPU, for every layout of the job: `python -m training.hugging_face export|import`.
"""
