"""Fine-tune a language model with LoRA and TRL. Every option is one of the command line, or a key of a YAML file."""

from pathlib import Path

from datasets import load_dataset
from transformers.trainer_utils import get_last_checkpoint
from trl import ModelConfig, ScriptArguments, SFTConfig, SFTTrainer, TrlParser, get_peft_config


def main() -> None:
    """Train as one rank of torchrun."""
    script, training, model = TrlParser((ScriptArguments, SFTConfig, ModelConfig)).parse_args_and_config()
    training.model_init_kwargs = {"dtype": model.dtype, "attn_implementation": model.attn_implementation}
    trainer = SFTTrainer(
        model=model.model_name_or_path,
        args=training,
        train_dataset=load_dataset(script.dataset_name, split=script.dataset_train_split),
        peft_config=get_peft_config(model),
    )
    checkpoint = get_last_checkpoint(training.output_dir) if Path(training.output_dir).is_dir() else None
    if trainer.is_world_process_zero():
        print(f"starts from {checkpoint or model.model_name_or_path}", flush=True)
    trainer.train(resume_from_checkpoint=checkpoint)
    # A run that was told to stop returns here, too.
    if trainer.state.global_step >= trainer.state.max_steps:
        trainer.save_model()


if __name__ == "__main__":
    main()
