"""Every way to write a checkpoint, `saves.py KIND`, after three steps and with a fourth behind it. The last line tells
the file or folder, its size and whether it came by a rename."""
import io
import json
import os
import pickle
import sys

import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 1))
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)


def step():
    net(torch.randn(4, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def size(path):
    if os.path.isdir(path):
        return sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path))
    return os.path.getsize(path)


def torch_path():
    torch.save(net.state_dict(), "a.pt")
    return "a.pt", False


def torch_file():
    with open("b.pt", "wb") as file:
        torch.save(net.state_dict(), file)
    return "b.pt", False


def torch_aside():
    torch.save(net.state_dict(), "c.pt.tmp")
    os.replace("c.pt.tmp", "c.pt")
    return "c.pt", True


def of_memory(name):
    held = io.BytesIO()
    torch.save(net.state_dict(), held)
    with open(name, "wb") as file:
        file.write(held.getvalue())


def torch_memory():
    of_memory("d.pt")
    return "d.pt", False


def torch_memory_aside():
    of_memory("d.tmp")
    os.rename("d.tmp", "d.pt")
    return "d.pt", True


def torch_nowhere():
    # Sent somewhere, never a file.
    torch.save(net.state_dict(), io.BytesIO())
    pickle.dumps(net.state_dict())
    return None, None


def pickled():
    with open("e.pkl", "wb") as file:
        pickle.dump(net.state_dict(), file)
    return "e.pkl", False


def pickled_aside():
    with open("f.tmp", "wb") as file:
        pickle.dump({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, file)
    os.replace("f.tmp", "f.pkl")
    return "f.pkl", True


def safetensors():
    from safetensors.torch import save_file

    save_file(net.state_dict(), "g.safetensors")
    # What the library itself does: another file put over the old one is another inode.
    before = os.stat("g.safetensors").st_ino
    save_file(net.state_dict(), "h.safetensors")
    os.link("h.safetensors", "keep")
    save_file(net.state_dict(), "h.safetensors")
    return "g.safetensors", os.stat("h.safetensors").st_ino != os.stat("keep").st_ino


def safetensors_bytes():
    from safetensors.torch import save

    with open("i.safetensors", "wb") as file:
        file.write(save(net.state_dict()))
    return "i.safetensors", False


def dcp():
    import torch.distributed.checkpoint as dcp

    dcp.save(net.state_dict(), checkpoint_id="j")
    return "j", None


def dcp_async():
    import torch.distributed.checkpoint as dcp

    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    answer = dcp.async_save(net.state_dict(), checkpoint_id="k")
    getattr(answer, "upload_completion", answer).result()
    return "k", None


for _ in range(3):
    step()
try:
    path, atomic = globals()[sys.argv[1]]()
except (ImportError, AttributeError, RuntimeError) as error:
    print("CANNOT %s: %s" % (type(error).__name__, error))
    sys.exit(0)
step()
if torch.distributed.is_available() and torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()
truth = {"path": path and os.path.abspath(path), "bytes": path and size(path), "atomic": atomic, "step": 3}
print("TRUTH " + json.dumps(truth))
