"""Find what would keep an image from EFA and NCCL, in anybody's image or Dockerfile. Nothing is run or changed."""
