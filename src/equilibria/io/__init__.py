"""Reading and writing: files with checksums, dataclasses as JSON, models as folders, the Hugging Face Hub, pages."""
