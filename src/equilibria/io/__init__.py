"""What touches the disk: checked files, dataclasses as JSON, models as folders, the Hugging Face Hub, pages."""
