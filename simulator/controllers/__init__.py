"""What moves the objects of a cluster, each file one controller as in Kubernetes."""
