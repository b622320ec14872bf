# Sentences of `onecard probe`.

probe-gap-no-device-memory = the driver gave no figure for the device's memory
probe-gap-no-utilization = the driver gave no utilization
probe-gap-no-process-list = the driver gave no process list; the figure is the device's rise above its baseline
probe-gap-no-process-memory = the driver does not say how much memory each process has; the figure is the device's rise above its baseline
probe-gap-hidden-processes = the driver names processes by numbers that mean nothing here (a container's PID namespace), and one of them may be this run; the figure is the device's rise above its baseline

probe-gap-sampler-died = onecard's sampler met a bug of its own and ended early; the child was not touched

journal-not-one = `{ $path }` is not a journal of onecard
journal-not-one-hint = a journal stands beside the probe document and ends in .jsonl

probe-throttled = GPU { $index }: clocks were held down in { $share } of the readings ({ $reasons })
probe-waited-unknown = the GPU was busy { $utilization } of the time, and neither storage, memory nor CPU shows why
probe-waited-oom-kills = the host's out-of-memory killer ended { $kills } { $kills ->
        [one] process
       *[other] processes
    } while the GPU was busy { $utilization } of the time
probe-waited-faults = { $rate } pages a second came back from disk (swap) while the GPU was busy { $utilization } of the time
probe-waited-mapped = { $rate } pages a second of mapped files were read from disk while the GPU was busy { $utilization } of the time
probe-waited-storage = processes waited for storage in { $share } of the readings (reading { $rate } a second) while the GPU was busy { $utilization } of the time
probe-waited-cpu = the CPUs that the job may use were { $share } busy while the GPU was busy { $utilization } of the time
probe-waited-thread = one process kept { $cores } cores busy and the rest of the job none, while the GPU was busy { $utilization } of the time
probe-waited-memory = processes stood still for want of host memory in { $share } of the time, while the GPU was busy { $utilization } of it
probe-waited-shm = /dev/shm was nearly full ({ $used } of { $total }) while the GPU was busy { $utilization } of the time
probe-waited-workers = { $count } processes kept a core each busy ({ $cores } cores together) while the GPU was busy { $utilization } of the time
probe-waited-pcie = { $rate } a second went over the bus while the GPU was busy { $utilization } of the time
probe-advice-shm = give it more room (docker run --shm-size, or a larger /dev/shm), or use fewer data workers
probe-advice-workers = the data workers cannot keep up: more of them if there are cores left, cheaper preprocessing, or doing it once ahead of the run
probe-advice-pcie = keep on the GPU what is moved to and fro in each step (offloaded states, batches sent as float): it waits for the bus
probe-advice-unknown = look at the time between steps with a profiler: synchronisation, small kernels, evaluation or logging
probe-advice-thermal = the card is too hot: better cooling, or another machine
probe-advice-power = the power limit holds the card back: compare it with the card's default (onecard env)
probe-advice-throttled = see the reasons; onecard env shows the limits in force
probe-advice-host-memory = the job needs more host memory: fewer data workers, smaller prefetch, or a larger machine
probe-advice-storage = copy the data to a local disk, pack small files into few large ones, or prefetch with more workers
probe-advice-cpu = more CPU cores, or cheaper preprocessing (do it once, ahead of the run)
probe-advice-thread = data loading or preprocessing runs in one thread: raise the data loader's workers

probe-title = probe
probe-host = Host
probe-gaps = What is missing
probe-field = field
probe-reason = why
probe-command = command
probe-ended = ended
probe-duration = duration
probe-samples = samples
probe-steps = steps
probe-steps-value = { $count } ({ $source })
probe-step-time = step time
probe-loss = loss
probe-loss-value = { $first } → { $last }
probe-outcome-stopped = by onecard, as asked
probe-outcome-signal = by signal { $signal }
probe-outcome-exit = exit status { $code }
probe-gpu = GPU
probe-peak = peak
probe-total = total
probe-share = peak share
probe-processes = this run
probe-utilization = mean utilization
probe-peak-rss = peak resident memory
probe-cpu-share = CPU share
probe-io-wait = waited for storage
probe-no-gpus = none of them was watched
probe-no-figures = no GPU figures: { $reason }
probe-foreign = GPU { $index } was shared with others: { $names }
probe-failure = { $kind }: { $evidence }
probe-survivors = still running after the command ended: { $names }

probe-command-not-found = cannot run `{ $command }`: not found
probe-command-not-found-hint = check the name and PATH, or give a path
probe-command-not-executable = cannot run `{ $command }`: { $cause }
probe-command-not-executable-hint = is it a program or a script, and may it be executed (chmod +x)?
probe-no-process = cannot start a process: { $cause }
probe-no-process-hint = a limit of processes or memory is reached (ulimit -u, the container's pids limit)
probe-needs-linux = onecard probe runs commands on Linux only
probe-not-saved = the document could not be saved: { $cause }
probe-saved-elsewhere = it was saved as `{ $path }` instead
probe-unknown-gpu = no GPU is called `{ $wanted }`
probe-unknown-gpu-hint = onecard env lists the GPUs of this machine
probe-no-gpu-to-watch = there is no GPU to watch: { $cause }

probe-gap-no-steps = neither the hook nor the output told of any training step
probe-gap-no-step-time = too few steps were seen at known times
probe-gap-declared = the whole time over the declared steps; it holds the start of the program, too
probe-gap-scanner-died = onecard's log reader met a bug of its own and stopped reading; the child was not touched
probe-gap-output-missed = { $bytes } of the output went by too fast to be read
probe-live-memory = { $used }/{ $total } GiB{ $over } (limit { $limit })
probe-live-memory-only = { $used } GiB
probe-live-busy = busy { $share }
probe-live-step = step { $step }
probe-live-each = { $seconds } a step
probe-live-left = { $seconds } left
probe-ambiguous-gpu = `{ $wanted }` is the beginning of several UUIDs: { $uuids }
probe-ambiguous-gpu-hint = give more of it
probe-bad-pattern = the step pattern cannot be used: { $cause }
probe-bad-pattern-hint = it needs a group named step, as in 'it (?P<step>[0-9]+)'; others are total, loss, lr and sec
probe-pattern-no-step = it has no group named step
probe-pattern-unknown-group = it has a group named `{ $name }`
probe-gap-only-log = only a log was read
probe-gap-no-exit-code = the run's exit status is not known (give it with --exit-code)
probe-evidence-cpu = PyTorch made training steps, and none of the run's processes ever held memory on the GPU
probe-meters = Memory, by four meters
probe-meter = meter
probe-meter-bytes = peak
probe-meter-blind = does not see
probe-meter-allocated = live tensors
probe-meter-allocated-blind = what the allocator keeps, the CUDA context, other libraries
probe-meter-reserved = PyTorch's allocator
probe-meter-reserved-blind = the CUDA context, NCCL and library workspaces, other processes
probe-meter-processes = this run's processes
probe-meter-processes-blind = managed memory in full, and rises shorter than the sampling
probe-meter-device = the whole device
probe-meter-device-blind = whose memory it is, and rises shorter than the sampling
probe-gap-recovered = onecard was killed before the command ended; this is what it had seen until then
probe-gap-journal-lines = { $count ->
        [one] one line
       *[other] { $count } lines
    } of the journal could not be read
probe-gap-journal = the journal could not be written: { $cause }
probe-gap-bug = onecard met a bug of its own ({ $what }); figures are missing, and the child was not touched
probe-gap-fold-failed = onecard met a bug of its own; figures of some seconds are missing, and the child was not touched
probe-gap-driver-hangs = the NVIDIA driver did not answer within 20 s
probe-gap-no-signals = signals could not be caught, and were not passed on: { $cause }
probe-gap-stream-unread = stream { $stream } could not be read: { $cause }
probe-gap-no-relay = the output could not be read: { $cause }

# What the hook could not see.
hook-absent = hook absent: { $why }
hook-absent-flag = python { $flag } does not look at PYTHONPATH or does not run sitecustomize
hook-absent-env = env -i clears the environment
hook-absent-sudo = sudo clears the environment
hook-absent-container = a container does not see this environment
hook-absent-elsewhere = the command runs on another machine or in another environment
hook-absent-replaced = a process that uses torch has a PYTHONPATH of its own ({ $path }); with PYTHONPATH={ $path }:$PYTHONPATH the hook would stay on it
hook-absent-unset = a process that uses torch was started without PYTHONPATH
hook-absent-cleared = { $command } uses torch and was started with an environment of its own
hook-absent-unloaded = no Python interpreter of the child loaded it
hook-no-folder = hook absent: no writable temporary folder ({ $cause })
hook-no-folder-there = no such folder
hook-no-torch = Python ran, but nothing imported torch
hook-many-writers = more than { $limit } processes wrote records
hook-many-processes = more than { $limit } processes used torch
hook-gap-no-step-hook = this torch has no hook for optimizer steps
hook-gap-no-step = torch was imported, but no optimizer step happened
hook-gap-no-cuda = the child never initialised CUDA in PyTorch
hook-gap-modules = looking at the modules took too long and was cut short
hook-gap-killed = the process ended without leaving in good order
hook-gap-no-loss = no scalar loss passed through backward
# Checkpoint files
checkpoint-unreadable = cannot be read: { $cause }
checkpoint-empty = it is empty
checkpoint-many-files = too many files for a checkpoint
checkpoint-shard = a shard of a distributed checkpoint tells nothing of itself
checkpoint-legacy = the file form before torch 1.6 has neither length nor checksum
checkpoint-zeros = it begins with zeros: its space was reserved and never written
checkpoint-unknown-format = its format is not known
checkpoint-zip-cut = cut off or not a whole zip: { $cause }
checkpoint-zip-entries = it claims more entries than any checkpoint has
checkpoint-zip-name = the name of entry { $name } cannot be read
checkpoint-zip-other = a zip that `torch.save` did not write
checkpoint-zip-outside = entry `{ $name }` reaches beyond the file's end
checkpoint-zip-overlap = its entries overlap
checkpoint-zip-no-sums = it was saved without checksums
checkpoint-zip-sum = the checksum of `{ $name }` does not hold
checkpoint-zip-entry = entry { $name } cannot be read: { $cause }
checkpoint-tensors-short = it ends within its header
checkpoint-tensors-header = its header claims { $header }, the file has { $size }
checkpoint-tensors-json = its header does not hold together: { $cause }
checkpoint-tensors-size = it has { $size }, its header describes { $expected }
checkpoint-json = not JSON: { $cause }
checkpoint-json-large = too large to be read whole
checkpoint-metadata-large = too large to be read whole
checkpoint-metadata-cut = cut off: it has no pickle's beginning and end
checkpoint-no-files = there are no files
checkpoint-unfinished = unfinished files: { $names }
checkpoint-index-path = `{ $name }` names files outside its folder
checkpoint-index-missing = `{ $name }` names files that are missing: { $names }
checkpoint-metadata-missing = `.metadata` is missing: the save was not finished
checkpoint-trainer-missing = `trainer_state.json` is missing: the save was not finished
checkpoint-trainer-step = `trainer_state.json` tells step { $said }, the folder's name { $name }
checkpoint-beside-missing = missing beside the earlier checkpoint: { $names }
checkpoint-beside-smaller = smaller than in the earlier checkpoint: { $names }
