# Failures of a training command: evidence that no line of the log gives, and the next step to try.

failure-evidence-signal = the command was ended by signal { $signal }
failure-evidence-oom-kills = the command was ended by signal { $signal } and its cgroup counted { $count ->
    [one] one kill
   *[other] { $count } kills
} for lack of memory
failure-evidence-xid = the driver reported Xid { $xid }
failure-evidence-loss = { $name } was NaN, infinite or zeroed { $count ->
    [one] once
   *[other] { $count } times in a row
} and did not recover
failure-evidence-slower = steps took { $early } early in the run and { $late } at its end, { $factor } times as long
failure-evidence-gpu-growth = the GPU's memory rises by { $hourly } an hour and does not level off
failure-evidence-host-growth = the host's memory in use rises by { $hourly } an hour and does not level off
failure-evidence-until = { $growth }; the limit is reached in { $time }

advice-reduce-memory = lower the batch size or the sequence length; `onecard estimate` says which change saves most
advice-fragmentation = set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: memory that PyTorch holds but does not use would have held the request
advice-gpu-shared-with-other-process = another process holds memory of this GPU: end it, or choose a free GPU
advice-gpu-full-before-start = the GPU was full before the command used it: end what runs there (`onecard env` names it), or choose a free GPU
advice-save-adapter-only = the memory was short while saving: save the adapter alone, or merge on the CPU
advice-reduce-evaluation-memory = the memory was short in the evaluation: lower its batch size, and let it keep fewer logits
advice-raise-gpu-memory-utilization-or-smaller-model = raise gpu_memory_utilization, lower the longest sequence, or take a smaller or quantized model
advice-kernel-block-size = lower the kernel's block sizes or num_stages: this is on-chip memory, and a larger card does not help
advice-raise-shm-or-fewer-workers = give the container more shared memory (`--shm-size=8g` or `--ipc=host`), or use fewer data loader workers
advice-raise-job-memory = ask for more host memory for this job (`--mem`, the container's limit), or use fewer data loader workers
advice-reduce-host-memory = the host ran out of memory, not the GPU: use fewer data loader workers, load less data at once, or take a machine with more
advice-free-disk-or-save-total-limit = free disk space, write checkpoints elsewhere, or keep fewer of them (save_total_limit)
advice-torch26-weights-only = the file is whole: since torch 2.6 torch.load refuses pickled objects; update the library, or pass weights_only=False for a file you trust
advice-use-previous-checkpoint = the newest checkpoint is damaged: resume from the one before it
advice-download-or-use-previous = the file is cut or not what it claims to be: download it again, or use an earlier one
advice-bf16-or-lower-lr = use bf16 in place of fp16, lower the learning rate or clip gradients, and resume from before the loss was lost
advice-reboot-or-reload-driver = the driver was updated while in use: reboot, or reload the kernel modules
advice-install-torch-for-older-cuda = update the driver, or install a build for an older CUDA
advice-restart-container = the container lost its GPU: restart it (the host's GPU is fine)
advice-gpu-not-visible = no GPU is visible to the command: start the container with `--gpus all`, and look at CUDA_VISIBLE_DEVICES
advice-install-cuda-torch = install a build with CUDA: this one is for the CPU only
advice-bitsandbytes-cuda-build = install a bitsandbytes that has a binary for this CUDA version
advice-rebuild-extension = an extension was built for another version of torch, CUDA or the system: reinstall it against the one in use
advice-install-newer-torch-build = install a build whose architectures include this GPU: it is newer than the build
advice-install-older-torch-build = install a build that still includes this GPU: it is older than the build supports
advice-use-sdpa-or-eager = use sdpa or eager attention on this GPU; memory then grows faster with the sequence length
advice-free-exclusive-gpu = the GPU is in exclusive mode and taken: end the process that holds it
advice-hardware-or-provider = the hardware failed: ask the provider for another machine
advice-label-out-of-range = a label lies outside the classes of the model: check the labels and the number of classes
advice-index-out-of-range = an index lies outside its table: check token ids against the vocabulary and positions against the longest sequence
advice-device-assert = run again with CUDA_LAUNCH_BLOCKING=1 to see the line that fails
advice-kernel-bug-or-index = run again with CUDA_LAUNCH_BLOCKING=1, and without custom kernels, to see which one reads out of bounds
advice-check-nccl = run again with NCCL_DEBUG=INFO, and look for the rank that failed first
advice-time-limit = the job's time was up: ask for more, and resume from the last checkpoint
advice-resume-from-checkpoint = the command was told to end: resume from the last checkpoint
advice-native-crash = native code crashed: run again with `python -X faulthandler`, and check versions of compiled packages
advice-interrupted = the command was interrupted by hand
advice-killed-by-someone = the command was killed, and not for lack of memory: a scheduler, a watchdog or a person did it
advice-use-the-gpu = training ran on the CPU: `onecard env` says whether the GPU and this build of the library fit together
advice-look-at-the-log = look at the lines around it in the log
advice-find-the-slowdown = compare temperature, clocks and data loading at the start and now
advice-find-the-leak = keep no tensor that holds a graph (use `.item()` or `.detach()`), and look at lists that grow
