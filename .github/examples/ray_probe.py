"""Ray: one probe for each worker, one verdict. `python ray_probe.py OUT -- python train.py`; OUT is seen by all nodes."""
import os
import subprocess
import sys

import ray


@ray.remote(num_gpus=1)
def probe(rank, ranks, out, command):
    document = os.path.join(out, f"probe-{rank}.json")
    env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks)}
    # Ray has set CUDA_VISIBLE_DEVICES: the probe watches the worker's own card.
    subprocess.run(["onecard", "probe", "--max-steps", "60", "--output", document, "--", *command], env=env)
    return document


def main():
    out, separator, *command = sys.argv[1:]
    assert separator == "--" and command, __doc__
    os.makedirs(out, exist_ok=True)
    ray.init()
    ranks = int(ray.cluster_resources().get("GPU", 0))
    assert ranks, "this Ray cluster has no GPU; is RAY_ADDRESS that of the cluster?"
    documents = ray.get([probe.remote(rank, ranks, out, command) for rank in range(ranks)])
    named = [word for document in documents for word in ("--probe", document)]
    sys.exit(subprocess.run(["onecard", "verdict", "--deadline", "72h", "--steps", "20000", *named]).returncode)


if __name__ == "__main__":
    main()
