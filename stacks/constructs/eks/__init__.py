"""An EKS cluster: its control plane, add-ons, nodes, and the access of people and pods."""
