"""The controllers of a simulated cluster, one file each as in Kubernetes."""
