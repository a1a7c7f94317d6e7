"""A real Kubernetes control plane on this machine: etcd, apiserver, scheduler, controllers and kwok."""
