"""The stacks of clusters and of the EKS control plane, with what several of them share."""
