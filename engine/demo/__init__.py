"""The embedded model: a small Qwen3-shaped network that lists letters, numbers, days and months.

The weights, the tokenizer and the configuration lie beside this file in Hugging Face layout, with a model
card (README.md) and the script that trained them (train.py). Nothing here imports torch but that script.
"""
