"""Decodes with Hugging Face and CTranslate2 models in this process."""
