# Sentences of `onecard verdict`.

verdict-title = Verdict: { $verdict }
verdict-is-pass = PASS
verdict-is-fail = FAIL
verdict-is-undetermined = UNDETERMINED

verdict-status-pass = pass
verdict-status-fail = fail
verdict-status-unknown = unknown
verdict-status-accepted = accepted
verdict-name-memory = Memory
verdict-name-time = Time
verdict-name-precision = Precision
verdict-name-recovery = Recovery

verdict-column-criterion = Criterion
verdict-column-status = Status
verdict-column-why = Because
verdict-column-check = Check
verdict-column-finding = Finding
verdict-column-value = Measured
verdict-column-limit = Limit
verdict-column-evidence = Evidence
verdict-accepted-because = accepted: { $reason }
verdict-all-hold = { $count ->
    [one] its one check holds
   *[other] all { $count } checks hold
}
verdict-heading-next = Next steps
verdict-heading-record = To repeat this
verdict-note-line = Worth knowing: { $text }
verdict-next-line = [{ $criterion }] { $text }
verdict-next-line-effect = [{ $criterion }] { $text } ({ $effect })
verdict-fact-command = Command
verdict-fact-commit = Git commit
verdict-fact-packages = Package list hash
verdict-fact-driver = Driver
verdict-fact-gpus = GPU
verdict-fact-torch = PyTorch
verdict-fact-cuda = CUDA
verdict-fact-started = Started
verdict-fact-limit = Memory limit
verdict-fact-min-steps = Steps needed
verdict-fact-deadline = Deadline
verdict-fact-price = Price per GPU and hour
verdict-fact-documents = Documents
verdict-fact-need = Needed format

# Memory
verdict-no-probe = no probe document: nothing was measured
verdict-real-step-yes = a forward pass, a backward pass and an optimizer step ran
verdict-real-step-no = the run never did a forward pass, a backward pass and an optimizer step together
verdict-real-step-unknown = nobody saw whether an optimizer step ran: the hook was not loaded
verdict-peak-device = { $gpu }: { $peak } at the peak is { $share } of { $total }; { $limit } may be used
verdict-peak-own = { $gpu }: the job's processes held { $peak } at the peak, { $share } of { $total }; { $limit } may be used
verdict-peak-reserved = PyTorch's allocator alone held { $peak }, more than may be used
verdict-peak-estimated = not measured; the estimate is { $low } to { $high }, and { $limit } of { $total } may be used
verdict-peak-estimated-over = not measured; even the low end of the estimate, { $low } to { $high }, is above the { $limit } of { $total } that may be used
verdict-peak-unknown = the peak was not measured
verdict-steps-enough = { $count } steps in a row (source: { $source }); { $needed } are needed
verdict-steps-few = only { $count } steps (source: { $source }); { $needed } are needed
verdict-steps-unknown = the number of steps is not known
verdict-memory-failure = the run failed with { $kind }
verdict-memory-failure-none = no out-of-memory and no illegal access
verdict-memory-failure-unknown = the run broke off for a reason that is not known; want of memory cannot be excluded
verdict-foreign-none = no other process was on the card
verdict-foreign = { $count ->
    [one] another process was
   *[other] { $count } other processes were
} on { $gpu } while the run was measured
verdict-foreign-unknown = nobody knows whether other processes were on { $gpu }
verdict-estimate-inside = measured { $measured }, estimated { $expected } ({ $low } to { $high }): { $off } of the estimate, within its interval
verdict-estimate-outside = measured { $measured }, estimated { $expected } ({ $low } to { $high }): { $off } of the estimate, outside its interval
verdict-growing = memory still grew in the last third of the run, from { $before } to { $late }: the peak may lie ahead
verdict-mixed-gpus = the job ran on different cards: { $names }
verdict-peak-missed = PyTorch's allocator held { $peak }, the driver was seen to have given out { $seen } at most: the samples missed the peak
verdict-not-on-gpu = the run did not use the GPU: what was measured is not what the card would hold, nor how fast it is
verdict-memory-grows = memory rises without end
verdict-peak-ahead = memory still grew in the last third of the run, from { $before } to { $late }; going on like this, slower and slower, the whole job would reach { $peak }, and { $limit } may be used
verdict-peak-ahead-open = memory still grew in the last third of the run, from { $before } to { $late }; how long the job is, and so how far it will grow, is not known
verdict-other-model = the estimate is of a model of { $planned } parameters, the run trained one of { $seen }: they are not the same job
verdict-other-training = the estimate trains { $planned } parameters, the run trained { $seen }: they are not the same job
verdict-fewer-tokens = the estimate's micro-batch holds { $planned } tokens, the run was seen with { $seen }: longer samples take more memory and time than was measured
verdict-smaller-batch = the estimate's batch is { $planned } samples, the run's was { $seen }: a larger one takes more memory and time than was measured
verdict-less-accumulation = the estimate accumulates { $planned } batches in a step, the run { $seen }: the job makes more steps than the estimate counts
verdict-fewer-gpus = the estimate is for { $planned } GPUs, the run used { $seen }
verdict-other-card = { $gpu } that was measured is { $name }; the other document is about { $other }
verdict-other-driver = measured under driver { $then }; the env document has { $now }
verdict-ranks-other-command = { $first } and { $other } are of different commands
verdict-ranks-other-commit = { $first } and { $other } are of different commits
verdict-ranks-other-time = { $first } and { $other } are of runs at different times
verdict-ranks-all = all { $count } ranks have a document
verdict-ranks-missing = { $present } of { $world } ranks have a document; missing: { $missing }
verdict-ranks-unnamed = { $count } documents that do not say which ranks they are
verdict-ranks-other-run = the documents come from { $count } different runs

# Time
verdict-ended-well = the run ended in good order
verdict-ended-by-status = the run ended with status { $n }
verdict-ended-by-signal = the run was ended by signal { $n }
verdict-ended-with = { $how } ({ $kinds })
verdict-ended-unknown = how the run ended is not known
verdict-ended-after-failure = the run reported { $kind } and was still ended in good order: part of it may have died
verdict-steps-slow-down = steps take several times as long as at the start: their mean says nothing of the whole job
verdict-planned-short = the estimate is for { $planned } steps, the run announced { $declared }: the total is that of a shorter job
verdict-step = a step takes { $mean } on average ({ $count } steps seen, { $excluded } of them left out as warm-up)
verdict-step-unknown = the step time is not known
verdict-total-no-steps = no total: the step time is not known
verdict-total-no-length = no total: the length of the whole job is not known
verdict-total-no-batch = no total: how many samples or tokens a step takes is not known
verdict-total-no-interval = no total: too few steps were timed for an interval
verdict-total-no-deadline = the whole job takes { $total } ({ $low } to { $high }); no deadline was given to hold it against
verdict-total-complete = the whole job ran under the probe and took { $total }
verdict-total-within = { $steps } steps of { $step } and { $rest } beside them: { $total } ({ $low } to { $high }), within the deadline of { $deadline }
verdict-total-over = { $steps } steps of { $step } and { $rest } beside them: { $total } ({ $low } to { $high }), over the deadline of { $deadline }
verdict-total-straddles = { $steps } steps of { $step } and { $rest } beside them: { $total } ({ $low } to { $high }), and the deadline of { $deadline } lies within that interval
verdict-unseen-checkpoint = a checkpoint
verdict-unseen-evaluation = an evaluation
verdict-unseen-epoch = an epoch boundary
verdict-unseen-plateau = the warm card
verdict-unseen-room = never seen: { $terms }; the deadline leaves { $room } for them
verdict-unseen-tight = never seen: { $terms }; the deadline leaves only { $room } for them
verdict-cost = { $cost } ({ $low } to { $high }): { $gpus ->
    [one] 1 GPU
   *[other] { $gpus } GPUs
} for { $hours } hours at { $price }
verdict-physics-possible = at least { $share } of the card's { $peak } TFLOPS in { $format }: possible
verdict-physics-impossible = { $share } of the card's { $peak } TFLOPS in { $format } is more than the { $limit } that is possible: steps, tokens or format were misread
verdict-drift = steps got slower or faster: { $first } in the first third, { $last } in the last; the slower one is projected
verdict-stalled = { $count ->
    [one] 1 stall
   *[other] { $count } stalls
} of more than 5 times the median; going on like this they add { $more }
verdict-spread = one step in ten takes { $step } or longer; if all did, the whole job would take { $total }{ $cost }{ $deadline }
verdict-slower-third = the slower third of the run took { $step } a step; if all did, the whole job would take { $total }{ $cost }{ $deadline }
verdict-what-if-cost = {" "}and cost { $cost }
verdict-what-if-within = , within the deadline of { $deadline }
verdict-what-if-over = , over the deadline of { $deadline }
verdict-stalls = { $count } steps cannot show rare stalls: one in { $count } that is 8 times as long would add { $longer }, { $more } in all
verdict-throttled-measured = { $gpu } slowed down in { $share } of the readings (power or heat), to { $slowed } MHz from { $free }; slowed down all the time, a step that the clock bounds would take { $step } and the whole job { $total }{ $cost }{ $deadline }
verdict-throttled-untimed = { $gpu } slowed down in { $share } of the readings (power or heat), to which clock is not known; in a hardware slowdown (half the clock or less, by NVIDIA's definition) a step that the clock bounds would take { $step } or longer and the whole job { $total }{ $cost }{ $deadline }
verdict-throttled-never = { $gpu } never slowed down here; in a hardware slowdown (half the clock or less, by NVIDIA's definition) a step that the clock bounds would take { $step } or longer and the whole job { $total }{ $cost }{ $deadline }
verdict-throttled-unread = whether { $gpu } slowed down was not read; in a hardware slowdown (half the clock or less, by NVIDIA's definition) a step that the clock bounds would take { $step } or longer and the whole job { $total }{ $cost }{ $deadline }
verdict-throttled = { $gpu } slowed down in { $share } of the readings (power or heat)
verdict-straggler = { $document } is slower than the others: { $slowest } a step, { $middle } in the middle rank
verdict-length-differs = the run announced { $declared } steps; the verdict is about { $planned }

# Precision
verdict-need-unknown = which format the job needs is not known
verdict-capability-unknown = { $need } is needed; the GPU's compute capability is not known
verdict-native-yes = { $need } is native on compute capability { $capability }
verdict-native-no = { $need } is not native on compute capability { $capability }; it is from { $from } on
verdict-used-yes = the run computed in { $need }
verdict-used-no = { $need } is needed, but the run computed in { $found }
verdict-used-unknown = nobody saw in which format the run computed: the hook was not loaded
verdict-used-fp8-untold = fp8 inside libraries does not show in what the hook sees
verdict-used-tf32-untold = whether fp32 products ran as tf32 is not known
verdict-loss-finite = the loss stayed finite
verdict-loss-not-finite = the loss became NaN or infinite
verdict-ranks-agree = all ranks computed in the same format
verdict-ranks-disagree = the ranks computed in different formats
verdict-ranks-precision-untold = in which format one of the ranks computed is not known
verdict-fp64-rate = fp64 runs at 1/{ $times } of the rate of fp32 on this card

# Recovery
verdict-recovery-untested = no recovery test was run
verdict-checkpoint-complete = the checkpoint { $path } is complete
verdict-checkpoint-incomplete = the checkpoint { $path } is not complete
verdict-checkpoint-broken = the checkpoint { $path } is not complete: { $why }
verdict-checkpoint-written = { $count ->
    [one] 1 checkpoint was
   *[other] { $count } checkpoints were
} written, the last at { $path }; nobody checked that it is complete
verdict-checkpoint-none = no checkpoint was seen
verdict-storage-memory = the checkpoint lies in memory ({ $kind } at { $place }): gone at a restart
verdict-storage-container = the checkpoint lies in the container's own layer ({ $kind } at { $place }): gone when the container is
verdict-storage-instance-disk = the checkpoint lies on the instance's own disk ({ $kind } at { $place }): gone when the instance stops
verdict-storage-local-volume = the checkpoint lies on a volume of this machine ({ $kind } at { $place }): it survives a stop; whether it outlives the instance is not known
verdict-storage-network = the checkpoint lies on storage outside the instance ({ $kind } at { $place })
verdict-storage-unknown = the checkpoint lies on a disk ({ $kind } at { $place }) whose lifetime nothing tells
verdict-storage-of-test = in the test { $where }; the job must write there as well
verdict-storage-of-test-only = in the test { $where }; where the job itself writes is not known
verdict-storage-untold = whether the checkpoint's storage outlives the instance is not known
verdict-not-flushed = the checkpoint was not flushed to its disk before it counted: after a host's death the newest may be empty
verdict-inodes-short = only { $left } more files can be created there; three checkpoints need { $needed }
verdict-all-checkpoints = if none is removed on the way, the run's { $count } checkpoints take { $all }; { $free } are free
verdict-polite-killed = asked to end, the run was still there after { $seconds } and was killed
verdict-polite-zero = asked to end, the run ended after { $seconds } with status 0: a scheduler takes that for a finished job
verdict-polite-saved = asked to end, the run saved and ended after { $seconds }
verdict-polite-unsaved = asked to end, the run ended after { $seconds } without saving
verdict-left-alive = processes outlived the interruption: { $names }
verdict-memory-kept = GPU memory was not back where it had been after the interruption
verdict-space-enough = { $free } are free for checkpoints of { $each }; three of them are { $needed }
verdict-space-short = only { $free } are free for checkpoints of { $each }; three of them are { $needed }
verdict-grade-a = A: the resumed run is equal to the last bit, or as exact as two runs of it are
verdict-grade-b = B: same order, learning rate and step; only random state differs
verdict-grade-c = C: step and learning rate go on, the data order was lost
verdict-grade-d = D: the optimizer or the schedule began anew
verdict-grade-f = F: the run cannot be resumed
verdict-grade-untold = no grade: the resumed run was not held against an uninterrupted one
verdict-resume-step-yes = the resumed run went on from the next step
verdict-resume-step-no = the resumed run did not go on from the next step
verdict-resume-step-untold = from which step the resumed run went on is not known
verdict-resume-lr-yes = the learning rate went on
verdict-resume-lr-no = the learning rate did not go on
verdict-resume-lr-untold = whether the learning rate went on is not known
verdict-resume-loss-yes = the loss went on
verdict-resume-loss-no = the loss did not go on
verdict-resume-loss-untold = whether the loss went on is not known: no uninterrupted run to hold it against
verdict-not-atomic = a checkpoint is written in place: killed while saving, the newest one is broken
verdict-damage = a damaged newest checkpoint was not survived: { $names }
verdict-lost-work = an interruption costs about { $steps ->
    [one] 1 step
   *[other] { $steps } steps
} and a restart of { $restart }: { $seconds }
verdict-lost-work-cost = an interruption costs about { $steps ->
    [one] 1 step
   *[other] { $steps } steps
} and a restart of { $restart }: { $seconds }, { $cost }
verdict-notice = a step and a save take { $needed }; a notice of { $notice } leaves half of it for that

# Next steps
verdict-next-change = { $change }
verdict-next-change-costs = { $change }: { $effect }
verdict-next-would-fit = peak about { $peak }, within the { $limit } that may be used
verdict-next-would-not-fit = peak about { $peak }, still over the { $limit } that may be used
verdict-next-smaller = halve the batch size and probe again; if 1 is still too large: shorter sequences, then mixed precision, gradient checkpointing, LoRA or QLoRA, a larger card (`onecard estimate` says what each saves)
verdict-next-real-step = probe the training command itself, with the hook on, until at least one optimizer step is done
verdict-next-measure = measure it: `onecard probe -- COMMAND` on this card
verdict-next-steps = let the probe run for more than { $steps } steps after the warm-up (`onecard probe --max-steps N`)
verdict-next-read-output = read the last lines of the run's output, repair the cause and probe again
verdict-next-alone = end the other processes or take another GPU, and probe again
verdict-next-ranks = give the probe document of every rank (`--probe FILE` for each)
verdict-next-fix-run = repair what ended the run, and probe again
verdict-next-step-time = let the probe see the steps: keep the hook on, or say how they are printed (`onecard probe --step-pattern REGEX`)
verdict-next-faster = make a step take { $needed } instead of { $now } ({ $times } times as fast): a faster card, mixed precision, a compiled model, more GPUs, or fewer steps
verdict-next-later = or allow a deadline of { $high }
verdict-next-length = say how long the job is: `--steps N`, `--epochs N --samples N` or `--tokens N`
verdict-next-deadline = say by when it must be done: `--deadline 72h`
verdict-next-more-steps = probe more steps: the interval is too wide for this deadline
verdict-next-unseen = let the probe run through an evaluation and an epoch's end, or add their time: `--extra 2h` (`--extra 0s` if the job has none)
verdict-next-physics = check the step pattern, the tokens a step and the format: the figures contradict each other
verdict-next-on-gpu = make the run use the GPU (a PyTorch build with CUDA, a device that it can see), and probe again
verdict-next-longest = probe with the longest samples of the data (sorted by length, or padded to the limit), in as many steps as it takes for the peak to stay
verdict-next-leak = find what keeps tensors alive from step to step, and probe again
verdict-next-same-job = give the estimate of the job that was probed, or probe the job of the estimate
verdict-next-same-card = probe on the card that is meant
verdict-next-slow-down = find what slows the steps down, and probe again
verdict-next-planned-length = say how long the job is: `--steps N`
verdict-next-card = take a card of compute capability { $from } or newer, or a format that this card has
verdict-next-use = make the run compute in { $need } (its own switch for mixed precision), and probe again
verdict-next-finite = lower the learning rate or take bf16 instead of fp16, and probe again
verdict-next-ranks-precision = give every rank the same format
verdict-next-env = say which card it is: `onecard env --output env.json` on it, then `--env env.json`
verdict-next-hook = probe with the hook on, so that the formats are seen
verdict-next-checkpoint = make the run write a whole checkpoint, and probe again
verdict-next-storage = write checkpoints to storage outside the instance (a network volume or a bucket)
verdict-next-space = make room for three checkpoints, or write them elsewhere
verdict-next-data-order = make the data loader resumable (a stateful or seeded sampler), or accept the loss: `--accept recovery=REASON`
verdict-next-resume = repair the resumption: optimizer, schedule, step and data order must come from the checkpoint
verdict-next-recovery = test it: `onecard probe --recovery paired --scratch FOLDER -- COMMAND` interrupts the run after a checkpoint, resumes it, and holds step, learning rate and loss against an uninterrupted run; or take the risk yourself: `--accept recovery=REASON`

# HTML report
verdict-question = Is this card enough for this job?
verdict-made-by = Written by onecard { $version }. The judged documents hold every figure; the JSON report cites each.
verdict-plot-memory = GPU memory over time
verdict-plot-memory-caption = Whole device; { $peak } at the peak, { $points } points kept of all samples.
verdict-plot-limit = limit { $limit } ({ $share })
verdict-plot-steps = Step times
verdict-plot-steps-caption = Mean { $mean }, median { $median }; four steps in five take { $p10 } to { $p90 }. { $count } steps were seen.
verdict-plot-loss = Loss over steps
verdict-plot-loss-caption = From { $first } to { $last }.
verdict-plot-interrupted = interrupted
verdict-plot-resumed = resumed from
verdict-plot-loss-across = From { $first } to { $last }. The second line is the resumed run, from step { $from } on.
verdict-plot-steps-beyond = { $count ->
    [one] One step is
   *[other] { $count } steps are
} longer than the plot is wide, up to { $longest }.
verdict-ledger = Memory: estimated and measured
verdict-ledger-caption = Terms of the estimate that are alive at its peak, then the totals. Thin lines are intervals.
verdict-ledger-allocated-estimated = Estimated, live tensors
verdict-ledger-process-estimated = Estimated, whole process
verdict-ledger-allocated-measured = Measured, live tensors
verdict-ledger-process-measured = Measured, the job's processes
verdict-ledger-device-measured = Measured, whole device

# Bad input
verdict-nothing-to-judge = nothing to judge: no `{ $path }` here and no document named
verdict-nothing-to-judge-hint = run `onecard probe -- COMMAND` first, name documents with --probe, --estimate or --env, or look at `onecard verdict --example`
verdict-absurd = `{ $path }`: { $pointer } { $why }
verdict-absurd-hint = the document was damaged or not written by onecard; probe again
verdict-absurd-time = is not a duration
verdict-absurd-step = is not a step time
verdict-absurd-rate = is not a rate
verdict-absurd-total = is not a GPU's memory
verdict-absurd-over-total = is more than the card has
verdict-absurd-share = is not a share
verdict-same-rank = `{ $path }`: rank { $rank } has a document already
verdict-same-rank-hint = give each rank's document once
verdict-report-extension = cannot tell the format of the report `{ $path }`
verdict-report-extension-hint = name it .html, .md, .json or .xml
verdict-bad-price = `{ $price }` is not a price
verdict-bad-price-hint = give a decimal number such as `2.99`
