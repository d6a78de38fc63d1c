"""What a host of a SageMaker training job does around the job's command, for `training.sagemaker_host`."""
