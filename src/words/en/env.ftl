# Sentences of `onecard env`.

# Why one figure could not be read (`gaps[].reason`).
unread-not-supported = the driver does not offer this on this GPU
unread-no-permission = no permission
unread-no-symbol = the driver's library is older than this query
unread-not-found = the driver has no entry for it
unread-lost = the GPU has fallen off the bus or needs a reset
unread-not-ready = the GPU is not ready for work yet (confidential computing)
unread-blocked = the device is blocked for this process by a cgroup or the system
unread-no-value = the driver answers "not available"
unread-unsafe-process-list = drivers 535.43 to 535.98 return process lists in a broken layout; update to 535.104 or later
unread-accounting-off = accounting mode is off (an administrator can turn it on: nvidia-smi -am 1)
unread-too-soon = needs two samples at least 100 ms apart
unread-silent = no answer within half a second
unread-system = the system says: { $what }
unread-other = the driver library says: { $what }

# What CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER lead to.
visible-empty = CUDA_VISIBLE_DEVICES is set and empty, so a program started from here sees no GPU; unset it
visible-duplicate = CUDA_VISIBLE_DEVICES names `{ $entry }` twice, which makes the whole list empty
visible-ambiguous = CUDA_VISIBLE_DEVICES: the prefix `{ $entry }` is ambiguous, several GPUs begin like it; the list ends there, and { $count ->
    [0] no GPU is
    [one] one GPU is
   *[other] { $count } GPUs are
} visible
visible-negative = CUDA_VISIBLE_DEVICES: `{ $entry }` ends the list; { $count ->
    [0] no GPU is
    [one] one GPU is
   *[other] { $count } GPUs are
} visible
visible-invalid = CUDA_VISIBLE_DEVICES: `{ $entry }` is no GPU of this machine and ends the list; { $count ->
    [0] no GPU is
    [one] one GPU is
   *[other] { $count } GPUs are
} visible
visible-order = NVML index and CUDA index may differ here: the cards are of different kinds and CUDA puts the fastest first; compare UUIDs or set CUDA_DEVICE_ORDER=PCI_BUS_ID
visible-told = CUDA puts the fastest card first: cuda:0, cuda:1, … are the cards with NVML index { $order }
visible-likely = cuda:0 is likely { $name } (NVML index { $index })
visible-mig-without-instance = a GPU in MIG mode without instances cannot be used; an administrator creates them with `nvidia-smi mig -cgi … -C`
visible-one-instance = { $count } MIG instances are named, but a program can use one; it gets the first

env-unknown = unknown

# Why there is no usable GPU, and what to do. Each cause has its own sentence.
absence-system = NVIDIA has no driver for { $os }, so no CUDA GPU can be used here
absence-system-hint = run onecard on the Linux or Windows machine that has the GPU; `estimate --gpu NAME` works everywhere
absence-no-device = no NVIDIA GPU on this machine (the PCI bus has none)
absence-no-device-hint = rent or pick a machine with a GPU; `onecard estimate MODEL --gpu NAME` answers without one
absence-other-vendor = no NVIDIA GPU on this machine; the GPU that is here ({ $card }) is of another maker
absence-other-vendor-hint = onecard reads NVIDIA GPUs only; `estimate` works without one
absence-nouveau = an NVIDIA GPU ({ $card }) is here, but the nouveau driver holds it, which has no CUDA
absence-nouveau-hint = install NVIDIA's driver from the distribution's packages and reboot; it turns nouveau off
absence-vfio = an NVIDIA GPU ({ $card }) is here, but it is set aside for virtual machines (vfio-pci)
absence-vfio-hint = use it from the virtual machine, or bind it back to the nvidia driver
absence-no-driver = an NVIDIA GPU ({ $card }) is here, but no NVIDIA driver is installed
absence-no-driver-unseen = no NVIDIA driver is installed here; whether there is a GPU cannot be told, since the PCI bus cannot be listed
absence-no-driver-unseen-hint = where there is a card, install NVIDIA's driver; in a chroot mount /proc, /sys and /dev first
absence-no-driver-hint = install the driver from the distribution's packages (`ubuntu-drivers install`, `dnf install nvidia-driver`) and reboot
absence-module = NVIDIA's driver is installed, but its kernel module is not loaded
absence-module-hint = `sudo modprobe nvidia` says why; after a kernel update the module must be rebuilt (`dkms status`), with Secure Boot it must be signed
absence-container = this container was started without a GPU: there is neither a GPU device nor a driver library in it
absence-container-hint = start the container with `--gpus all` (Docker), `--device nvidia.com/gpu=all` (Podman) or the provider's GPU setting; the host's driver is handed in, nothing in the container needs to change
absence-container-hides = this container gets no GPU: NVIDIA_VISIBLE_DEVICES says so
absence-container-hides-hint = start the container with NVIDIA_VISIBLE_DEVICES=all or the GPU's UUID
absence-no-nodes = the driver ({ $module }) is loaded, but there is no device node /dev/nvidia0
absence-no-nodes-hint = `sudo nvidia-modprobe -u -c 0` or `sudo nvidia-smi` creates the nodes
absence-permission = no permission to use the GPU ({ $nodes })
absence-permission-hint = add the user to the group that owns /dev/nvidia* (often `video` or `render`) and log in again, or ask the administrator
absence-blocked = the system blocks the GPU for this process (device cgroup)
absence-blocked-hint = ask the scheduler for a GPU (`--gres=gpu:1`, `nvidia.com/gpu: 1`); in a container that lost its GPU after `systemctl daemon-reload`, restart the container
absence-library = the driver ({ $module }) is loaded, but its library libnvidia-ml.so.1 is missing
absence-library-hint = install the driver's user-space package of the same version ({ $module }), or add its folder to LD_LIBRARY_PATH
absence-library-container-hint = the container has the device without the driver's libraries: start it with the NVIDIA runtime and NVIDIA_DRIVER_CAPABILITIES=compute,utility
absence-library-damaged = the driver library that is found cannot be used: { $said }
absence-library-damaged-hint = a stub of the CUDA toolkit or a library of another architecture is found first: take its folder out of LD_LIBRARY_PATH
absence-mismatch = driver and library are of different versions: the kernel module is { $module }, the library { $library }
absence-mismatch-hint = the driver was updated while it was running: reboot, or unload and load the nvidia modules
absence-mismatch-container-hint = the host's driver was updated after this container was started, or the image brings its own driver library: restart the container, and take driver packages out of the image
absence-wsl-driver = WSL has the GPU (/dev/dxg), but the driver's library is not found
absence-wsl-driver-hint = install NVIDIA's driver in Windows (not in Linux) and add /usr/lib/wsl/lib to LD_LIBRARY_PATH
absence-wsl-gpu = this WSL shows no GPU (/dev/dxg is missing)
absence-wsl-gpu-hint = WSL 2 and a current Windows driver are needed: `wsl --update`, then `wsl --shutdown`
absence-jetson = a Jetson without NVML: its GPU is used through the JetPack libraries
absence-jetson-hint = JetPack 5 or later brings NVML; memory is shared with the CPU, `tegrastats` shows its use
absence-not-ready = the GPU is not ready for work: confidential computing holds it back
absence-not-ready-hint = `nvidia-smi conf-compute -srs 1` sets it ready after attestation
absence-lost = the GPU has fallen off the bus or needs a reset
absence-lost-hint = `dmesg | grep -i xid` tells why; reboot the machine, and return it to the provider when it happens again
absence-none-reported = the driver ({ $module }) works, but reports no GPU
absence-none-reported-hint = `dmesg | grep -i nvrm` tells why: a card that this driver does not support, lacking power, or a vGPU without licence
absence-hidden = there is a GPU, but CUDA_VISIBLE_DEVICES hides it from every program started here
absence-hidden-hint = unset CUDA_VISIBLE_DEVICES, or name a GPU that exists
absence-no-instance = the GPU is in MIG mode and has no instance: programs see instances only
absence-no-instance-hint = an administrator creates them (`nvidia-smi mig -cgi … -C`) or turns MIG off (`nvidia-smi -mig 0`)
absence-unknown = the driver library cannot be started: { $said }
absence-unknown-hint = `nvidia-smi` and `dmesg | grep -i nvrm` may say more

# The driver answers, and CUDA would still not start.
absence-no-power = the GPU lacks power: a power cable is missing
absence-cuda-missing = the driver answers, but CUDA's part of it, libcuda.so.1, is nowhere in the loader's folders: PyTorch sees no GPU
absence-cuda-missing-hint = install the driver's compute package of the same version ({ $module }): `libnvidia-compute-…` on Ubuntu, `libcuda1` on Debian, `nvidia-driver-cuda-libs` on RHEL
absence-cuda-stub = programs find the CUDA toolkit's stub instead of the driver's library ({ $path }): CUDA ends with error 34 (stub library)
absence-cuda-stub-hint = take that folder out of LD_LIBRARY_PATH; stubs are for linking only
absence-cuda-mismatch = programs find the CUDA library of driver { $cuda } ({ $path }), but the kernel module is { $module }: CUDA refuses with error 803 (unsupported driver combination)
absence-cuda-mismatch-hint = remove that copy or take its folder out of LD_LIBRARY_PATH, so that the one of driver { $module } is found; after a driver update, reboot or restart the container
absence-cuda-compat = programs find a forward-compatibility library ({ $cuda } in { $path }) in front of driver { $module }; it serves data center cards only, so CUDA ends with error 804 on this card
absence-cuda-compat-hint = take that folder out of LD_LIBRARY_PATH or remove the cuda-compat package, and use a PyTorch build that driver { $module } runs, or update the driver
absence-no-uvm = this container has the GPU's device without /dev/nvidia-uvm: nvidia-smi works there, CUDA does not start (error 999)
absence-no-uvm-hint = `sudo nvidia-modprobe -u -c 0` on the host creates it
absence-no-uvm-container-hint = run `sudo nvidia-modprobe -u -c 0` on the host and start the container anew with the NVIDIA runtime (or add `--device /dev/nvidia-uvm`)
absence-fabric = the NVSwitches of this machine are not set up: until the fabric manager has done so, CUDA ends with error 802 (system not yet initialized)
absence-fabric-hint = `sudo systemctl start nvidia-fabricmanager`; its version must be the driver's; then look at `nvidia-smi -q -i 0 | grep -A 3 Fabric`
check-fabric = the NVLink fabric has not taken this GPU in yet; CUDA may end with error 802 (system not yet initialized)
check-uvm = /dev/nvidia-uvm is missing: without the helper nvidia-modprobe CUDA does not start
check-bus = { $bus } GPUs are on the PCI bus and bound to the driver, which counts { $counted }: the others failed to start
check-unreachable-lost = the driver counts this GPU, but it has fallen off the bus or needs a reset
check-unreachable-permission = the driver counts this GPU, but does not allow it to be used
check-unreachable-power = the driver counts this GPU, but it lacks power
check-unreachable-power-hint = connect the power cables of the card, then reboot
check-unreachable-not-ready = the driver counts this GPU, but it is not ready for work (confidential computing)
check-unreachable = the driver counts this GPU, but gives no access to it: { $said }

# The page.
env-title = This machine
env-usable = a GPU can be used: { $name }
env-driver = Driver
env-driver-cuda = CUDA of the driver
env-gpus = GPUs
env-gpu = GPU { $index }: { $name }
env-column-index = NVML
env-column-cuda = Seen as
env-column-name = Name
env-column-uuid = UUID
env-column-sms = SMs
env-column-pid = PID
env-column-kind = Kind
env-column-field = Field
env-column-reason = Why it is missing
env-pci = PCI address
env-hidden = hidden
env-capability = Compute capability
env-capability-sms = { $capability } ({ $count } SMs)
env-precisions = Native precisions
env-precisions-slow = { $native } (in hardware but slow: { $slow })
env-catalog = Catalogue row
env-catalog-differs = { $id }, but with another memory size: a slice, or not the maker's memory chips
env-catalog-none = none for this card
env-memory-total = Memory
env-memory-reserved = Reserved by the driver
env-memory-used = Used
env-memory-used-v1 = { $used } (this driver's figure may include its own reserve: the same quantity, defined differently; not a leak)
env-memory-free = Free
env-memory-unified = shared with the CPU; the driver has no figure for the GPU alone
env-memory-untold = the driver does not say
env-budget = A program can have
env-budget-host = { $available } of { $total } now: host memory, shared with everything that runs here. Filling it freezes the machine, no out-of-memory error comes; leave room for the system
env-budget-instance = { $available } of { $total } now: its MIG instance. The card's total is not available to one program
env-utilization = Utilization
env-power = Power
env-power-of = { $watts } of { $limit } W
env-temperature = Temperature
env-clock-sm = SM clock, now / maximum
env-clock-memory = Memory clock, now / maximum
env-throttle = Slowed down by
env-pcie = PCIe link
env-pcie-below = { $now } now, { $max } at most (links idle down; only under load does this tell of a slow slot)
env-ecc = ECC
env-on = on
env-off = off
env-mig = MIG
env-mig-note = MIG is on: use an instance, not the card. The driver has no utilization for the card in this mode.
env-virtual = Virtualization
env-virtual-none = none
env-virtual-passthrough = the whole card, handed to this virtual machine
env-virtual-vgpu = vGPU: a share of a card
env-virtual-host = host of vGPUs
env-mode = Compute mode
env-mode-default = default
env-mode-exclusive = exclusive: one process at a time; a second one, even a check through PyTorch, fails or makes the job fail
env-mode-prohibited = prohibited: no program may compute
env-processes-none = No process is on this GPU.
env-kind-compute = compute
env-kind-graphics = graphics
env-kind-mps = MPS client
env-host = Around it
env-cores = CPU cores
env-cores-of = { $usable } of { $all }
env-host-memory = Host memory
env-host-memory-total = { $available } available of { $total }
env-swap = Swap
env-swap-none = none
env-near = CPUs near it
env-near-node = { $cpus } (NUMA node { $node })
env-host-memory-limit = { $available } available of { $total } (limit of the control group)
env-working-folder = Working folder
env-free-of = { $free } free of { $total }
env-disk = { $free } free of { $total } on { $mount } ({ $kind })
env-disk-local = local disk
env-disk-layer = container layer: gone with the container
env-disk-memory = in memory
env-disk-network = network
env-in-container = container ({ $kind })
env-in-vm = virtual machine ({ $kind })
env-kind-of-machine = Kind of machine
env-gaps = What could not be read
env-gaps-count = { $count ->
    [one] One figure
   *[other] { $count } figures
} could not be read; --verbose lists them with the reason.

# Refusals.
env-no-such-gpu = no GPU `{ $selector }` on this machine
env-no-such-gpu-hint = there are: { $known }
env-ambiguous-gpu = `{ $selector }` means several GPUs
env-ambiguous-gpu-hint = write more of the UUID: { $known }

# The Python of the user's command.
stack-no-python = no Python is found on the PATH, in VIRTUAL_ENV or in CONDA_PREFIX
stack-python-not-started = { $path } cannot be started: { $cause }
stack-python-hangs = { $path } did not answer within { $limit }
stack-python-silent = { $path } does not work: it ended without an answer ({ $status })
stack-python-broken = { $path } does not work ({ $status }): { $said }

# Checks of the installed software.
check-torch-none = no PyTorch is installed in { $path }
check-torch-none-hint = name the Python of the job with --python, or leave it out with --no-python
check-python-asked-hint = name a Python that starts, or the folder of its environment
check-python-hint = this is the Python that `python train.py` would start here: repair it, or name the job's own with --python
check-environment = { $variable } is { $folder }, but `python` is { $path }: packages of that environment are not seen by it
check-environment-hint = activate the environment anew (`source { $folder }/bin/activate`, `conda activate { $folder }`), or name its Python with --python
check-environment-empty = { $variable } is { $folder }, where no Python is: the environment is broken or gone, and `python` is { $path }
check-environment-empty-hint = make the environment anew, or unset { $variable }
check-libraries = NVIDIA's libraries beside PyTorch { $version } are those that it pins ({ $count })
check-libraries-missing = libraries that PyTorch { $version } is linked against are not installed: { $missing }; unless the system has them, `import torch` fails
check-libraries-others = libraries beside PyTorch { $version } are of other versions than the pinned ones in brackets: { $others }; symbols may be missing, results and speed are untested
check-libraries-both = libraries beside PyTorch { $version } do not belong to it: missing { $missing }; others than pinned: { $others }
check-libraries-hint = `pip install --force-reinstall torch=={ $release }` from the same index restores them; `pip check` names what asked for the others
check-torch-cuda = the PyTorch build is fine: { $version } is built for CUDA { $cuda }
check-torch-cpu = PyTorch { $version } is a CPU build: it sees no GPU, whatever the driver
check-torch-rocm = PyTorch { $version } is built for AMD GPUs (ROCm { $hip })
check-torch-cuda-hint = install the CUDA build of torch: `pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/{ $tag }`
check-driver-full = driver { $driver } runs CUDA { $cuda }, for which PyTorch { $version } is built
check-driver-minor = driver { $driver } is older than CUDA { $cuda } of PyTorch { $version }, but of the same major version, which is enough; code that is compiled at run time may need a newer driver
check-driver-old = driver { $driver } is too old for PyTorch { $version }: CUDA { $cuda } needs driver { $needs } or newer
check-driver-old-hint = update the driver to { $needs } or newer, or install a build for its CUDA (`--index-url https://download.pytorch.org/whl/{ $tag }`)
check-kernels-native = PyTorch { $version } has code for this card ({ $arch } for compute capability { $capability })
check-kernels-ptx = PyTorch { $version } has no machine code for compute capability { $capability }, only { $arch }, which the driver compiles at the first start: minutes then, and slower kernels
check-kernels-ptx-newer = PyTorch { $version } has no machine code for compute capability { $capability }, only { $arch }, and this driver is older than CUDA { $cuda } that wrote it, so it cannot compile it: the first kernel would fail with "unsupported PTX version"
check-kernels-none = PyTorch { $version } has no code for this card: compute capability { $capability } is not in its list ({ $list }); the first kernel would fail with "no kernel image is available"
check-kernels-newer-hint = install a { $tag } or newer build of torch, whose list holds { $arch }
check-kernels-older-hint = install an older build of torch, or one with an older CUDA tag, whose list still holds { $arch }; the list of the installed build decides, not its tag
check-kernels-any-hint = install a build of torch whose list holds { $arch }
check-kernels-unknown = for which cards PyTorch { $version } has code could not be read from its files
check-package-torch = { $name } { $version } is compiled against PyTorch { $built }, but { $torch } is installed: its functions may fail to load
check-package-torch-hint = install a { $name } for the installed PyTorch, or build it from source
check-package-cuda = { $name } { $version } has code for CUDA { $built } only; PyTorch uses CUDA { $cuda }
check-package-cuda-hint = update { $name }
check-package-card = { $name } { $version } does not support compute capability { $capability }
check-package-card-hint = use `attn_implementation="sdpa"`
check-triton = { $name } { $version } brings the ptxas of CUDA { $built }, which does not know compute capability { $capability } (CUDA { $needs } does): `torch.compile` and Triton kernels fail
check-triton-hint = install a newer PyTorch with the triton that it pins, or set TRITON_PTXAS_PATH to the ptxas of a newer CUDA toolkit

# Checks of the machine around the GPU.
check-shm = /dev/shm holds { $total }
check-shm-small = { $total } /dev/shm is too small for DataLoader workers: they die with a bus error
check-shm-hint = start the container with --shm-size=8g or --ipc=host, or use num_workers=0
check-shm-full = /dev/shm has { $free } left of { $total }: DataLoader workers die with a bus error when it is full
check-shm-full-hint = remove what dead processes left in /dev/shm
check-cores = { $cores } CPU cores can be used
check-core = { $cores } CPU core can be used
check-core-few = { $cores } CPU core for { $gpus ->
    [one] one GPU
   *[other] { $gpus } GPUs
}: loading data will likely hold it back
check-cores-few = { $cores } CPU cores for { $gpus ->
    [one] one GPU
   *[other] { $gpus } GPUs
}: loading data will likely hold it back
check-affinity-far = this process may run on CPUs { $allowed } only, none of which is near the card ({ $near }): all traffic to it crosses the sockets' link
check-affinity-far-hint = bind the job to the card's CPUs: `taskset -c { $near }` or `numactl --cpunodebind`, where the container allows it
check-affinity = CPUs near the card ({ $near }) can be used
check-cores-hint = preprocess the data beforehand, or take a machine with at least four cores a GPU
check-cores-quota = { $cores } cores' worth of time are granted, but programs count { $counted } CPUs and start as many threads
check-cores-quota-hint = set OMP_NUM_THREADS={ $threads } and as many DataLoader workers at most
check-memory = { $available } of { $ceiling } host memory is available
check-memory-full = only { $available } of { $ceiling } host memory is available: the job may be killed while it loads
check-memory-full-hint = end other programs, or take a machine with more memory
check-memory-less = { $ceiling } of host memory is less than the GPU's { $gpu }: a model of that size cannot be loaded through it
check-memory-less-hint = load weights straight to the GPU (`device_map`, `low_cpu_mem_usage=True`), keep offloading and pinned memory small
check-files = { $limit } files can be open at once
check-files-few = only { $limit } files can be open at once: DataLoader workers run out ("too many open files", "received 0 items of ancdata")
check-files-hint = `ulimit -n 65536` before the job
check-disk = { $free } free where the job writes ({ $path })
check-disk-read-only = the working folder { $path } is read-only
check-disk-layer = the working folder { $path } lies in the container's own layer: what is written there is gone with the container
check-disk-memory = the working folder { $path } lies in memory: it counts against host memory and is gone at the end
check-disk-network = the working folder { $path } lies on a network file system: reading many small files from it is slow
check-disk-little = only { $free } free on { $mount } where the job writes ({ $path })
check-disk-inodes = only { $left } more files can be created on { $mount } ({ $path }), whatever their size
check-disk-hint = write checkpoints to a mounted volume with more room
check-disk-other-hint = write to { $mount }, which has { $free } free
check-wsl = WSL: memory that does not fit on the GPU spills into host memory without an error, and everything becomes slow; per-process memory is not told
check-wsl-hint = keep an eye on the step time; in the NVIDIA control panel set "CUDA - Sysmem Fallback Policy" to "Prefer No Sysmem Fallback"
check-pids = this container numbers processes on its own, the driver by the host's numbers: a process on the GPU cannot be matched, and may well be this job
check-checkpoint = checkpoints of { $checkpoint } fit on { $mount } ({ $free } free)
check-checkpoint-none = { $folder } is on { $mount } ({ $total } in all, { $free } free): one checkpoint of { $checkpoint } does not fit
check-checkpoint-few = { $folder } is on { $mount } with { $free } free: { $fit ->
    [one] one checkpoint
   *[other] { $fit } checkpoints
} of { $checkpoint } fit, { $needed } are needed while the newest is written
check-checkpoint-unlimited = { $folder } is on { $mount } with { $free } free: it is full after { $fit ->
    [one] one checkpoint
   *[other] { $fit } checkpoints
} of { $checkpoint }, and nothing limits their number
check-checkpoint-limit-hint = limit the checkpoints that are kept (`save_total_limit=2`)
check-checkpoint-both-hint = { $place }, and limit the checkpoints that are kept (`save_total_limit=2`)

# Checks of the card's health.
check-ecc = no uncorrected memory errors ({ $corrected } corrected since the driver was loaded)
check-ecc-now = { $count } uncorrected memory errors since the driver was loaded: results can be wrong and jobs can die
check-ecc-ever = { $count } uncorrected memory errors in the card's life, none since the driver was loaded
check-ecc-hint = reset the GPU or reboot; when they come back, return the card
check-rows = no memory rows wait to be replaced
check-rows-some = { $count } bad rows or pages of memory were replaced by spare ones; the card works as before
check-rows-pending = bad memory is found and will be replaced at the next reset
check-rows-hint = reset the GPU (`nvidia-smi -r`) or reboot before a long job
check-rows-failed = bad memory can no longer be replaced by spare rows
check-return-hint = take another machine and report this one to its provider
check-xid = the driver reported Xid { $number } on this card
check-xid-program = the driver reported Xid { $number } on this card: a program's own fault, or recovered from
check-xid-hardware = the driver reported Xid { $number } on this card: a fault of the card, its memory or its link
check-throttle = nothing slows the clocks down
check-throttle-now = the clocks are slowed down by: { $reasons }
check-throttle-hint = cooling or power supply falls short: every step will take longer; take another machine
check-temperature = { $celsius } °C; clocks slow down at { $limit } °C
check-hot = { $celsius } °C, at the brink of the { $limit } °C at which clocks slow down
check-free = nobody else uses this GPU
check-others = { $count ->
    [0] the GPU is busy
    [one] one process is on this GPU
   *[other] { $count } processes are on this GPU
} already ({ $used } in use)
check-others-hidden = { $used } of this GPU's memory is in use by processes that cannot be seen from here
check-others-hint = end them, or take another GPU: memory and time are shared with them
check-pcie = PCIe x{ $width }, as wide as card and slot allow
check-pcie-narrow = PCIe runs x{ $width } instead of x{ $full }: a riser, a shared slot or a bad contact; copies to the GPU take { $full }/{ $width } times as long
check-pcie-slow = PCIe runs at generation { $gen } under load instead of { $best }
check-pcie-hint = matters for loading data and offloading, not for compute; take another machine if the job does those
check-mode-prohibited = the compute mode is prohibited: no program may use this GPU
check-mode-exclusive = the compute mode is exclusive: only one program at a time, so onecard opens none here and reads through NVML only
check-mode-busy = the compute mode is exclusive and a program is running: a second one fails, even a check through PyTorch
check-mode-hint = an administrator changes it with `nvidia-smi -c 0`
check-persistence = persistence mode is off: the first CUDA call after a pause takes seconds
check-meter-v1 = this driver counts used memory in its old way, reserve included since driver 510: the same quantity, defined differently; a few hundred MiB on an idle card are no leak
check-unified = { $available } of { $total } host memory is left for GPU and system together
check-unified-hint = on unified memory leave room for the system: no out-of-memory error will come, the machine freezes

# --expect: is it the card that was promised?
expect-other-card = another card
expect-unified = shared with the host
expect-power-lowered = lowered from the board's { $default } W: sustained clocks are lower
expect-slot = the slot cannot do more
expect-virtual-bus = a virtual machine's bus hides the real link
expect-under-load = measured under load
expect-idle-link = links slow down when idle; --bench looks under load
expect-other-memory = another kind of memory: clocks do not compare
expect-persistence = off: the first CUDA call after a pause takes seconds; not held against the card
expect-narrow = a riser, a shared slot or a bad contact
expect-whole = the whole card
expect-mig = MIG: a slice of it
expect-vgpu = vGPU: a share of it
expect-alone = nobody else on it
expect-shared = { $count ->
    [one] one other process
   *[other] { $count } other processes
}

env-stack = Software
env-arch-list = PyTorch has code for
env-packages = Packages
env-promise = GPU { $index } held against { $expected }
env-column-what = What
env-column-promised = Promised
env-column-found = Found
env-column-answer = Answer
env-column-note = Note
env-kept = as promised
env-less = less
env-cannot-tell = cannot be told
promise-card = Card
promise-memory = Memory
promise-compute_capability = Compute capability
promise-sm_count = Multiprocessors
promise-memory_bus = Memory bus
promise-memory_clock = Memory clock
promise-memory_bandwidth = Memory bandwidth
promise-sm_clock = Clock
promise-power_limit = Power limit
promise-pcie_generation = PCIe generation
promise-pcie_width = PCIe width
promise-ecc = ECC
promise-whole_card = Whole card
promise-alone = Alone on it
promise-persistence = Persistence
env-checks = What needs attention
env-check-on = GPU { $index }: { $text }
env-check-hint = { $text }. Next: { $hint }
env-expect-unknown = no GPU `{ $name }` in the catalogue
env-expect-near-hint = similar: { $near }
env-expect-several = `{ $name }` names several cards
env-expect-several-hint = write one of: { $ids }
env-expect-no-row = `{ $name }` is not in the catalogue, so there is nothing to hold it against
env-expect-no-row-hint = name the card that was promised: --expect GPU

# How GPUs reach each other.
check-pair-nvlink = GPU { $a } and GPU { $b } are joined by NVLink
check-pair-pcie = GPU { $a } and GPU { $b } reach each other's memory over PCIe
check-pair-no-peer = GPU { $a } and GPU { $b } cannot reach each other's memory: everything between them goes through the host
check-pair-sockets = GPU { $a } and GPU { $b } sit on different processor sockets: traffic between them crosses the link of the sockets
check-pair-hint = matters for training on both: prefer a pair that is nearer, or less traffic (ZeRO 1 instead of 3, gradient accumulation)
env-column-pair = GPUs
env-column-joined = Joined by
env-column-peer = Peer access
env-joined-board = same board
env-joined-switch = one PCIe switch
env-joined-switches = PCIe switches
env-joined-bridge = host bridge
env-joined-node = processor socket
env-joined-system = across processor sockets
env-yes = yes
env-no = no

# --bench.
env-measuring = measuring { $name }, a few seconds …
env-bench = GPU { $index }, measured
env-column-measured = Measured
env-column-peak = Peak
env-column-share = Share
env-column-meanwhile = Clock meanwhile
env-bench-clock = { $mhz } MHz
env-bench-clock-held = { $mhz } MHz ({ $reasons })
env-bench-link = PCIe link while copying: { $link }.
env-bench-library = Products through { $library }.
env-bench-gap = { $field }: { $reason }
bench-task-device_copy = Device memory, read and write
bench-task-host_to_device = Copy from pinned host memory
bench-task-device_to_host = Copy to pinned host memory
bench-task-fp64 = Matrix product, fp64
bench-task-fp32 = Matrix product, fp32
bench-task-tf32 = Matrix product, tf32
bench-task-fp16 = Matrix product, fp16
bench-task-bf16 = Matrix product, bf16
bench-task-fp8 = Matrix product, fp8
bench-no-cuda = the driver's CUDA library cannot be loaded: { $cause }
bench-cuda-error = CUDA says { $said }
bench-not-visible = CUDA does not see this GPU
bench-no-cublas = no cuBLAS on this machine: neither a PyTorch nor a CUDA toolkit brought one
bench-cublas-error = cuBLAS says status { $status }
bench-no-cublaslt = cublasLt, which has the fp8 product, is not beside cuBLAS
bench-no-memory = too little free memory on the GPU
bench-gave-way = another process came onto this GPU meanwhile: measuring ended, and this figure was not kept
bench-hangs = did not end within { $limit }
check-bench = { $task }: { $share } of the peak
check-bench-low = { $task } reaches only { $share } of the peak: less than cards of this kind give
check-bench-hint = measure again on an idle card; if it stays, look at clocks, power limit and slot, and take another machine

check-clock = the system's clock says { $clock }: downloads fail on certificates, logs and deadlines are wrong
check-clock-hint = set the clock (`sudo timedatectl set-ntp true`)
