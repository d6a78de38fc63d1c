"""An EKS cluster: its control plane, add-ons, nodes, and the people and pods that it lets in."""
