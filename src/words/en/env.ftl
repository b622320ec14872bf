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
unread-too-soon = needs two samples at least 100 ms apart
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
absence-unknown = the driver library cannot be started: { $said }
absence-unknown-hint = `nvidia-smi` and `dmesg | grep -i nvrm` may say more

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
