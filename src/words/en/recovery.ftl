# The recovery test: plan, progress, findings.

recovery-plan = recovery test ({ $mode }): { $count } runs of the command: { $names }
recovery-plan-length = each keeps its own length and is ended by a signal: { $beyond } steps beyond { $checkpoints ->
        [one] its first checkpoint
       *[other] its checkpoint { $checkpoints }
    }, or before the next one; a resumed run when it has made those steps again
recovery-plan-scratch = they write below { $path } ({ $free } free), each into a folder of its own; all of it is removed at the end
recovery-plan-in-place = the command names no folder for its output ({"{out}"}), so its own is used: it is written to as in any run, and resumed in place
recovery-before-time = time: { $likely }; { $most }
recovery-before-likely = likely { $low } to { $high }
recovery-before-not-likely = how much is likely, nothing known beforehand tells
recovery-before-each = never more than { $most }: { $runs } runs of at most { $each } (--for), and the time to clear away after each
recovery-before-within = never more than { $most }, clearing away included (--within)
recovery-before-no-limit = without a limit (--for limits each run, --within the whole test)
recovery-before-silence = without a limit (--for limits each run, --within the whole test), but a run that shows nothing for { $silence } is ended
recovery-before-space = space: at most { $count } checkpoints of { $each } at once, { $most }
recovery-before-space-open = space: at most { $folders ->
        [one] the folder of one run
       *[other] { $folders } copies of one run's folder
    } at once; { $checkpoint }
recovery-before-size = a checkpoint takes { $each }, how many a folder will hold is not known
recovery-before-size-unknown = how large that is, the first checkpoint will show
recovery-before-space-own = space: as much as the command takes where it always writes; no copies are made
recovery-before-money = money: { $likely }; { $most } ({ $gpus ->
        [one] one GPU
       *[other] { $gpus } GPUs
    } at { $price } an hour)
recovery-before-cost-likely = likely { $low } to { $high }
recovery-before-cost-most = never more than { $most }
recovery-before-no-price = money: no price was given (--price P --currency C)
recovery-before-source = known beforehand: { $source }
recovery-before-unknown = unknown until the first checkpoint: { $names }
recovery-unknown-first-step = the time to the first step
recovery-unknown-step-time = the time of a step
recovery-unknown-first-checkpoint = the step of the first checkpoint
recovery-unknown-checkpoint-size = the size of a checkpoint
recovery-unknown-save-time = the time of a save
recovery-unknown-load-time = the time of loading one
recovery-source-probe = from { $path }, an earlier run of this command
recovery-source-other-command = from { $path }, a run of another command
recovery-source-estimate = from the estimate { $path }
recovery-source-command = the command says { $said }
recovery-took = the test took
recovery-took-value = { $seconds } in { $runs ->
        [one] one run
       *[other] { $runs } runs
    }{ $cost }
recovery-forecast = still to come: at most about { $seconds }, { $space } of disk ({ $free } free){ $cost }
recovery-no-room = the test needs { $space } of disk, { $free } are free
recovery-no-room-hint = name a larger disk with --scratch, or test with --recovery quick
recovery-phase-uninterrupted = uninterrupted run
recovery-phase-interrupted = interrupted run
recovery-phase-resumed = resumed run
recovery-phase-killed_while_saving = run killed while it saves
recovery-phase-resumed_after_save = resumed after that
recovery-phase-resumed_damaged = resumed from a damaged copy
recovery-begins = { $phase } …
recovery-checkpoint-seen = … whole checkpoint after { $step ->
        [one] one step
       *[other] { $step } steps
    }
recovery-waiting = … { $phase }: { $steps ->
        [one] one step
       *[other] { $steps } steps
    } after { $elapsed }, { $saved }; Ctrl-C ends the test and keeps what it has learned
recovery-waiting-silent = … { $phase }: { $steps ->
        [one] one step
       *[other] { $steps } steps
    } after { $elapsed }, { $saved }; nothing new for { $quiet }. Without --for or --within, a run that shows nothing for { $most } is ended; Ctrl-C ends the test and keeps what it has learned
recovery-waiting-saved = newest checkpoint after { $step ->
        [one] one step
       *[other] { $step } steps
    }
recovery-waiting-unsaved = no checkpoint yet
recovery-ended = … { $phase }: { $steps ->
        [one] one step
       *[other] { $steps } steps
    } in { $seconds }, { $how }
recovery-ended-by-test = ended by the test
recovery-ended-limit = ended at the limit of --for
recovery-ended-hung = no step within its time, killed
recovery-ended-signal = it died of signal { $signal }
recovery-ended-exit = it ended with status { $code }
recovery-ended-cut-short = ended because the test was stopped
recovery-stopped = the recovery test was interrupted; its runs are ended, its files removed, and what it had learned is in the document. Not done: { $missing }
recovery-stopped-early = the recovery test was interrupted before its first run had begun; nothing was learned
recovery-stopped-limit = the limit of --within came first; what the test had learned is in the document. Not done: { $missing }
recovery-stopped-by-signal = the test was interrupted; not done: { $missing }
recovery-stopped-by-limit = the limit of --within came first; not done: { $missing }
recovery-stopped-by-error = the test could not go on; not done: { $missing }
recovery-stopped-by-killed = onecard was killed; not done: { $missing }
recovery-limit-before-step = the limit of --for came before the resumed run had made a step: give it more time
recovery-not-ended = processes that could not be ended: { $names }
recovery-not-begun = the recovery test cannot run: { $cause }
recovery-not-begun-hint = --scratch names a folder that can be written to
recovery-needs-scratch = {"{out}"} stands for a folder of the test, and none is named
recovery-needs-scratch-hint = name one with --scratch DIR
recovery-needs-out = --recovery { $mode } runs the command several times and needs a folder for each run
recovery-needs-out-hint = write {"{out}"} where COMMAND names its output folder, or read ONECARD_OUT in it, and give --scratch DIR
recovery-no-scratch = no such folder: `{ $path }`
recovery-no-scratch-hint = make it first: the test writes nowhere that was not named

# What was found
recovery-not-repeatable = two runs of this command differ as much as two independent ones, so the resumed run is compared with the interrupted one's own steps
recovery-started-over = the resumed run began at the first step: nothing of the checkpoint was used
recovery-nothing-to-pair = no loss of the same step is known of both runs
recovery-hung = the resumed run made no step within its time
recovery-crashed = the resumed run ended with status { $code }
recovery-crashed-signal = the resumed run died of signal { $signal }
recovery-no-step = the resumed run ended without a step
recovery-rate-constant = the learning rate is constant here: that it agrees proves little
recovery-rate-differs = the learning rate differs from step { $step } on
recovery-optimizer-empty = the optimizer held no state at the first resumed step
recovery-first-only = the first loss agrees and the later ones do not: what the optimizer kept is lost
recovery-too-few = { $count ->
        [one] one common step
       *[other] { $count } common steps
    }, too few to tell what differs ({ $needed } are needed)
recovery-between = the losses differ by more than random state does and by less than another order of data
recovery-failed-before = the command failed by itself, before it could be interrupted
recovery-over-before = the run came to its own end after { $steps } steps, its newest checkpoint after { $saved }, before the test had interrupted it: test with a longer run, or have it save earlier
recovery-no-checkpoint-recognised = the run ended and wrote files, none of which was recognised as a checkpoint: name their folder with --checkpoint-dir, or have the run save while it goes on
recovery-no-checkpoint = the run ended without writing a checkpoint: there is nothing to resume from
recovery-no-checkpoint-yet = no checkpoint was written within { $steps ->
        [one] one step
       *[other] { $steps } steps
    }
recovery-damage-not-possible = this checkpoint has nothing that could be damaged so
recovery-save-not-hit = the saves were over before they could be hit
recovery-damage-last_file_missing = … a copy without the file that is written last
recovery-damage-largest_file_cut = … a copy whose largest file is cut off
recovery-damage-emptied = … a copy whose newest checkpoint is empty
recovery-damage-zeroed_page = … a copy with a page of zeros in its largest file
recovery-damage-killed_while_saving = … a run killed while it saved
recovery-gap = the test did not come so far
recovery-gap-step = nothing tells how the resumed run numbers its steps
recovery-gap-rate = no learning rate of the same steps is known
recovery-gap-faults = only `--recovery faults` damages copies of the checkpoint
recovery-gap-memory = there is no NVIDIA driver to ask

# The page
recovery-title = Recovery test
recovery-grade = grade
recovery-grade-none = not told
recovery-grade-a = A: the resumed run is the uninterrupted one, to the last bit or as exact as two runs of it are
recovery-grade-b = B: same order of data, learning rate and step; random state differs
recovery-grade-c = C: step and learning rate go on, the order of the data is lost
recovery-grade-d = D: optimizer, schedule or step counter began anew
recovery-grade-f = F: it cannot resume
recovery-lost = lost
recovery-lost-everything = everything
recovery-lost-step-counter = step counter
recovery-lost-schedule = learning rate schedule
recovery-lost-optimizer-state = optimizer state
recovery-lost-data-order = order of the data
recovery-lost-random-state = random state
recovery-steps = steps
recovery-steps-value = checkpoint { $checkpoint }, interrupted { $interrupted }, resumed at { $resumed }
recovery-loss = losses, same steps
recovery-loss-value = { $steps } compared, ratio { $ratio }, correlation { $correlation }, first difference { $first }
recovery-checkpoint = checkpoint
recovery-checkpoint-value = { $bytes } in { $files ->
        [one] one file
       *[other] { $files } files
    }, { $whole }, saved in { $seconds }
recovery-whole = whole
recovery-not-whole = not whole
recovery-cost = one interruption costs
recovery-cost-value = { $steps ->
        [one] one step
       *[other] { $steps } steps
    } again and { $restart } to restart
recovery-damage = newest checkpoint damaged
recovery-damage-column = what was done
recovery-met-column = what resuming did
recovery-met-fell-back = went on from an older one
recovery-met-trained-on = trained on with it
recovery-met-started-over = began at the first step
recovery-met-refused = ended with an error
recovery-met-hung = made no step
recovery-what-killed_while_saving = killed while saving
recovery-what-last_file_missing = last file missing
recovery-what-largest_file_cut = largest file cut
recovery-what-emptied = emptied
recovery-what-zeroed_page = a page of zeros
recovery-left-alive = still alive after the interruption: { $names }
recovery-memory-kept = GPU memory was not back where it had been
recovery-detail = { $text }
