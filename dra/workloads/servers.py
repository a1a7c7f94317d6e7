"""JupyterLab, Triton and vLLM: servers with a Service."""

from __future__ import annotations

from dra.objects import Manifest
from dra.workloads.images import IMAGES
from dra.workloads.network import policies, service
from dra.workloads.plain import deployed
from dra.workloads.pods import MODELS, Program, has_weights, metadata, name_of, pod_spec
from dra.workloads.use import Options, Use, devices_of

JOVYAN = 1000  # the user of Jupyter's and of Triton's own images
JUPYTER_PORT, VLLM_PORT = 8888, 8000
TRITON_PORTS = (("http", 8000), ("grpc", 8001), ("metrics", 8002))
MODEL = "Qwen/Qwen2.5-0.5B-Instruct"  # small and public, for a first try


def jupyter_program(use: Use) -> Program:
    """Return JupyterLab with its token in the log; `/api` answers without one."""
    return Program(
        IMAGES[use.maker].jupyter,
        ("jupyter", "lab", "--ip=0.0.0.0", f"--port={JUPYTER_PORT}", "--no-browser"),
        ports=(("http", JUPYTER_PORT),),
        ready="/api",
        user=JOVYAN,
    )


def jupyter(use: Use, options: Options) -> list[Manifest]:
    name, program = name_of(use, "lab"), jupyter_program(use)
    spec = pod_spec(use, options, program, restart="Never")
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata(name, use), "spec": spec}
    beside = service(name, use, program.ports)
    return [made, beside, *policies(name, use, options, ports=program.ports)]


def vllm_program(use: Use, options: Options) -> Program:
    """Return a server of the OpenAI protocol, over all devices of one claim where their number is known."""
    model = MODELS if has_weights(options) else MODEL
    devices = devices_of(use, options)
    parallel = () if devices is None else (f"--tensor-parallel-size={devices}",)
    return Program(
        IMAGES[use.maker].vllm,
        ("vllm", "serve", model, f"--port={VLLM_PORT}", *parallel),
        env=(("HOME", "/tmp"),),  # noqa: S108 - a user without a home writes its caches there
        ports=(("http", VLLM_PORT),),
        ready="/health",
        shm=True,
    )


def vllm(use: Use, options: Options) -> list[Manifest]:
    return deployed(name_of(use, "vllm"), use, options, vllm_program(use, options))


def triton(use: Use, options: Options) -> list[Manifest]:
    """Return Triton over the mounted models; without any it starts with none and says so in its log."""
    repository = MODELS if has_weights(options) else "/tmp"  # noqa: S108 - an empty folder of the image
    program = Program(
        IMAGES[use.maker].triton,
        ("tritonserver", f"--model-repository={repository}"),
        ports=TRITON_PORTS,
        ready="/v2/health/ready",
        user=JOVYAN,
        shm=True,
    )
    return deployed(name_of(use, "triton"), use, options, program)
