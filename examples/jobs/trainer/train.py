"""Continue the pretraining of a language model on a text file, with the Trainer of Hugging Face's transformers."""

from dataclasses import dataclass
from pathlib import Path

from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
    default_data_collator,
)
from transformers.trainer_utils import get_last_checkpoint


@dataclass
class Files:
    """The model's directory or its name in the hub, and the text."""

    model: str
    data: Path
    length: int = 1024


def main() -> None:
    """Train as one rank of torchrun. Every option of TrainingArguments is an option of the command line."""
    files, arguments = HfArgumentParser((Files, TrainingArguments)).parse_args_into_dataclasses()
    tokenizer = AutoTokenizer.from_pretrained(files.model)
    tokens = tokenizer(files.data.read_text(encoding="utf-8"), return_tensors="pt")["input_ids"][0]
    examples = [{"input_ids": each, "labels": each} for each in tokens.split(files.length) if len(each) == files.length]
    model = AutoModelForCausalLM.from_pretrained(files.model, dtype="auto")
    # All examples have one length, so none is padded: many tokenizers have no token for that.
    data = {"train_dataset": examples, "data_collator": default_data_collator, "processing_class": tokenizer}
    trainer = Trainer(model=model, args=arguments, **data)

    checkpoint = get_last_checkpoint(arguments.output_dir) if Path(arguments.output_dir).is_dir() else None
    if trainer.is_world_process_zero():
        print(f"starts from {checkpoint or files.model}", flush=True)
    trainer.train(resume_from_checkpoint=checkpoint)
    # A run that was told to stop returns here, too.
    if trainer.state.global_step >= trainer.state.max_steps:
        trainer.save_model()


if __name__ == "__main__":
    main()
