# Help of the command line: `help-about-COMMAND`, `help-COMMAND-FLAG` (`help-common-FLAG` for flags of every
# command), `help-value-FLAG-VALUE`, `help-examples-COMMAND`.

help-about-help = Print this message or the help of the given subcommand(s)
help-about = Is this one GPU enough for this job? Memory, time, precision and recovery, answered before the money is spent
help-onecard-completions = Write the completions of a shell to stdout; names of GPUs and models complete, too
help-onecard-man = Write the man pages into a folder
help-onecard-licenses = Licences of everything that is compiled in
help-common-format = What stdout carries
help-common-output = Also write the JSON document to FILE, whole or not at all
help-common-color = Colours; `NO_COLOR` is honoured
help-common-lang = Language of what a person reads (default: from `LC_ALL`, `LC_MESSAGES`, `LANG`); JSON never changes with it
help-common-quiet = Results only: no progress, no notes on stderr
help-common-help-more = Print help (see more with '--help')
help-common-help-less = Print help (see a summary with '-h')
help-common-help = Print help
help-common-version = Print version
help-common-verbose = More detail on stderr

# env
help-about-env = What GPU is here, can it be used, and is it what was promised
help-env-gpus = GPU to look at: NVML index, UUID (or its beginning), PCI bus id, MIG UUID; repeatable (default: all)
help-env-expect = Is it the card that was promised? Catalogue id, alias or name; alone: held against the card's own row. Exit 1 when it is less
help-env-python = The Python of the job, or the folder of its environment (default: `python` on the PATH)
help-env-no-python = Do not look at Python
help-env-bench = Measure the GPU too: copies and matrix products, a few seconds; not on a card that others use
help-env-replay = Read a recorded env document instead of this machine

# estimate
help-about-estimate = Memory of a training or inference job before anything is rented
help-estimate-model = A config.json, a folder, a PEFT adapter folder, .safetensors or .gguf; a preset id; or a hub id `org/name`
help-estimate-config = The same as a path given as MODEL
help-estimate-params = Number of parameters, when nothing else is known: rules of thumb with a wide interval (`7B`, `350M`)
help-estimate-method = What is trained, if anything [default: full]
help-value-method-full = Train every parameter
help-value-method-lora = Train low-rank adapters beside frozen weights
help-value-method-qlora = LoRA on a 4-bit base
help-value-method-inference = Prefill a prompt, then generate
help-estimate-task = What the model is used for [default: from the model]
help-value-task-causal-lm = Next-token prediction
help-value-task-seq2seq = Encoder-decoder
help-value-task-classification = A label for each sequence
help-value-task-vision = Images
help-estimate-seq = Tokens of a sequence [default: 2048, or the model's limit if lower]
help-estimate-batch = Sequences or images of one micro-batch on one GPU [default: 1]
help-estimate-grad-accum = Micro-batches before each optimizer step [default: 1]
help-estimate-resolution = Pixels of an image's side (vision) [default: from the model]
help-estimate-generate = New tokens after the prompt (inference) [default: 32]
help-estimate-param-dtype = What parameters are held in [default: fp32 for full, bf16 otherwise]
help-estimate-autocast = Mixed precision around the forward pass [default: bf16 for full with fp32 parameters and for qlora, else none]
help-estimate-quant = How frozen weights are stored [default: as the checkpoint is stored; nf4 for qlora, else none]
help-value-quant-none = As `--param-dtype` says
help-value-quant-nf4 = bitsandbytes NormalFloat, 4 bits and a scale for each block of 64
help-value-quant-fp4 = bitsandbytes 4-bit float, the same layout
help-value-quant-int8 = bitsandbytes `LLM.int8()`
help-value-quant-gptq = GPTQ: 4 bits, an fp16 scale and a 4-bit zero for each group of 128
help-value-quant-awq = AWQ: as GPTQ, without an order of inputs
help-value-quant-fp8 = One byte and an fp32 scale for each tile of 128 x 128 (inference)
help-estimate-no-double-quant = Keep the scales of 4-bit weights in fp32
help-estimate-optimizer = What steps the parameters [default: adamw]
help-value-optimizer-adamw = `torch.optim.AdamW` as it is by default
help-value-optimizer-adamw-fused = The same with `fused=True`
help-value-optimizer-adamw-8bit = bitsandbytes, states in 8 bits
help-value-optimizer-paged-adamw = bitsandbytes, states in memory that the driver may move to the host
help-value-optimizer-paged-adamw-8bit = Both
help-estimate-gradient-checkpointing = Recompute activations in backward instead of keeping them [default: on for qlora, else off]
help-estimate-no-gradient-checkpointing = Keep all activations
help-estimate-attention = How attention is computed [default: sdpa]
help-value-attention-sdpa = `scaled_dot_product_attention`
help-value-attention-flash = The `flash_attn` package
help-value-attention-eager = Plain matrix products: the score matrix is kept
help-estimate-lora-rank = Rank of the adapters (lora, qlora) [default: 16]
help-estimate-lora-targets = `all-linear`, or names such as `q_proj,v_proj` (lora, qlora) [default: all-linear]
help-estimate-lora-dropout = Dropout in front of the adapters (lora, qlora) [default: 0]
help-estimate-stack = Whose defaults apply: load dtype, optimizer, loss kernel, upcasts, checkpointing [default: plain]
help-value-stack-plain = A plain PyTorch loop around the Transformers model
help-value-stack-trainer = `transformers.Trainer`
help-value-stack-trl = `trl.SFTTrainer`
help-value-stack-llama-factory = LLaMA-Factory
help-value-stack-axolotl = Axolotl
help-value-stack-unsloth = Unsloth
help-estimate-loss = How the vocabulary-sized loss is computed [default: by stack]
help-value-loss-full = All logits at once, in fp32
help-value-loss-chunked = A slice of the tokens at a time
help-value-loss-fused = One kernel for head and loss; no logits in memory
help-estimate-gpu = A GPU to fit on: catalogue id, alias or name, `all`, `local` (this machine's), or a recorded env document; repeatable [default: local if there is one]
help-estimate-gpus = Equal GPUs that share the run [default: 1]
help-estimate-zero = DeepSpeed ZeRO stage: 1 shards optimizer states, 2 gradients too, 3 parameters too [default: 0]
help-estimate-fsdp = PyTorch's fully sharded data parallel
help-estimate-memory-limit = Share of the GPU's memory that may be used at the peak [default: 85%]
help-estimate-solve = Find the largest batch or sequence that fits
help-estimate-steps = Length of the run in optimizer steps
help-estimate-epochs = Passes over the data set; needs --samples
help-estimate-samples = Examples in the data set; needs --epochs
help-estimate-tokens = Length of the run in tokens (`2B`)
help-estimate-deadline = When it must be done, such as `72h` or `2days`
help-estimate-price = Price of one GPU for one hour
help-estimate-currency = ISO 4217 code of the price, such as USD [default: USD]
help-estimate-calibrate = A probe document of the same model: corrects the estimate by what was measured
help-estimate-probed-batch = Batch of the probed run, where its document does not say [default: the same as here]
help-estimate-probed-seq = Sequence of the probed run, where its document does not say [default: the same as here]

# probe
help-about-probe = Run COMMAND as if onecard were not there, and record what it did to the GPU
help-probe-gpus = GPU to watch: NVML index, UUID (or its beginning), PCI bus id, MIG UUID; repeatable (default: those that COMMAND may use)
help-probe-interval = How often GPU memory is read, 1ms to 10s; faster by itself while memory moves
help-probe-max-steps = End the child in good order after N steps; this is success
help-probe-for = End the child in good order after so long; this is success
help-probe-warmup = Steps left out of the step time: a number, or `auto`
help-probe-step-pattern = How a step looks in the output; named groups `step`, `total`, `loss`, `lr`, `sec`
help-probe-steps = COMMAND runs exactly N steps (when nothing can be read)
help-probe-no-hook = Do not load the PyTorch hook into the child's Python
help-probe-no-scan = Do not read the child's output: its streams are left alone
help-probe-checkpoint-dir = Where the child writes checkpoints (default: found by the hook)
help-probe-recover = Make the document from the journal of a probe that was killed
help-probe-read-log = No command: read the log of a run that already happened (`-` is stdin)
help-probe-exit-code = The exit status of that run
help-probe-command = The command to run, after `--`
help-heading-recovery = Recovery test
help-heading-past = A run that already happened
help-probe-recovery = Interrupt COMMAND after a checkpoint, resume it, compare; {"{out}"} in it stands for a run's own folder
help-value-recovery-quick = Interrupt, resume, compare the steps that both runs made
help-value-recovery-paired = Also run it uninterrupted: losses are compared beyond the interruption
help-value-recovery-faults = Also kill it while it saves, and resume from damaged copies of the newest checkpoint
help-probe-resume-with = How the job is resumed, as a shell line; {"{checkpoint}"} stands for the newest checkpoint (default: by COMMAND again)
help-probe-interrupt = How the run is interrupted
help-value-interrupt-kill = At once, as a lost machine does it
help-value-interrupt-term = Asked to end, as a scheduler does it, and killed when the notice has passed
help-probe-notice = With `--interrupt term`: how long it may take to save and end before it is killed
help-probe-scratch = Where the runs of the test write, a folder for each, removed at the end
help-probe-within = A limit for the whole recovery test: then it stops and writes what it has learned
help-probe-forecast-from = A probe or estimate document that tells beforehand how long the recovery test takes; repeatable (default: one of this command where the document will be)
help-probe-price = What an hour of the machine costs, to say what the test costs
help-probe-currency = Three-letter code of --price

# verdict
help-about-verdict = Is this card enough for this job: memory, time, precision, recovery
help-verdict-env = The env document (default: the one inside the probe document, else this machine is read now)
help-verdict-estimate = The estimate document
help-verdict-probes = The probe document; repeatable, one for each rank or node (default: `onecard-probe.json`)
help-verdict-example = Judge the recorded run that comes with onecard: no GPU is needed
help-verdict-deadline = By when the whole job must be done, such as `72h`
help-verdict-steps = Length of the whole job in optimizer steps
help-verdict-epochs = Length in passes over the data; needs --samples
help-verdict-samples = Samples in the data; needs --epochs
help-verdict-tokens = Length in tokens
help-verdict-samples-per-step = Samples in one optimizer step over all GPUs (default: by the estimate's plan, else as the hook saw)
help-verdict-extra = Time for what the probe never saw: evaluations, epoch boundaries
help-verdict-need = The number format that the job needs (default: the estimate's, else the one the run computed in)
help-verdict-memory-limit = Share of the card's memory that may be used at the peak
help-verdict-min-steps = Steps in a row that must have run
help-verdict-price = Price per GPU and hour, such as `2.99`
help-verdict-currency = Three-letter code of the price's currency; never converted
help-verdict-accept = Take the responsibility for a criterion that does not pass, with a reason; repeatable
help-verdict-reports = Also write a report; its ending says which: .html, .md, .json, .xml (JUnit); repeatable

## Examples
help-examples-onecard =
    Begin with:
      onecard env                                      is the GPU usable and whole
      onecard estimate llama-3.1-8b --gpu rtx-4090     does the job fit
      onecard probe --max-steps 60 -- python train.py  what it really does
      onecard verdict --deadline 72h --steps 20000     is the card enough

    Each command has examples of its own: onecard COMMAND --help
help-examples-env =
    Examples:
      onecard env                            what is here, can Python use it
      onecard env --expect rtx-5090          is it what was rented
      onecard env --bench --output env.json  measure it, keep the document
      onecard env --python ~/venv            with this environment's Python

    Exit status:
      0  a GPU can be used, and no check failed
      1  none can be used, or a check failed
      2  usage, or a bad file
help-examples-probe =
    Examples:
      onecard probe --max-steps 60 -- python train.py --epochs 3
      onecard probe --for 10min -- torchrun --nproc-per-node 2 train.py
      onecard probe --step-pattern 'iter (?P<step>\d+)' -- ./train.sh
      onecard probe --read-log train.log --exit-code 1
      onecard probe --recovery quick --scratch /tmp/s -- python train.py --out {"{out}"}

    Exit status: that of COMMAND, or
      128+n  signal n ended it
      125    onecard itself failed before it ran
      126    it cannot be executed
      127    it is not there
help-examples-verdict =
    Examples:
      onecard verdict --example
      onecard verdict --deadline 72h --epochs 3 --samples 20000
      onecard verdict --probe rank0.json --probe rank1.json --estimate estimate.json
      onecard verdict --steps 20000 --price 2.99 --currency USD --report report.html
      onecard verdict --accept recovery="one night, I restart it myself"

    Exit status:
      0  all four criteria pass
      1  one fails
      2  usage, or a bad file
      3  none fails, but evidence is missing
help-examples-estimate =
    Examples:
      onecard estimate llama-3.1-8b --method qlora --gpu rtx-4090
      onecard estimate ./my-model --method lora --seq 4096 --batch 2 --gpu all
      onecard estimate org/name --gpu h100-sxm --epochs 3 --samples 20000 --price 2.5
      onecard estimate resnet50 --gpu rtx-3060 --solve batch
      onecard estimate --params 7B --format json

    Exit status:
      0  it fits on a GPU that was asked for (or none was asked for)
      1  it fits on none
      2  usage, a bad model, or a bad file
      3  the interval straddles the limit

## Headings and what clap would say
usage-line = Usage: { $usage }
help-heading-commands = Commands
help-heading-arguments = Arguments
help-heading-options = Options
help-heading-common = Common options
help-heading-run = The run
help-heading-precision = Precision
help-heading-training = Training
help-heading-gpu = The GPU
help-heading-time = Time and cost
help-heading-own = The program itself
help-heading-calibration = Calibration
help-default = [default: { $value }]
help-values = [possible values: { $values }]
help-possible-values = Possible values:

## What is wrong with a command line
usage-unknown-argument = unexpected argument '{ $arg }' found
usage-no-value = a value is required for '{ $arg }' but none was supplied
usage-invalid-value = invalid value '{ $value }' for '{ $arg }'
usage-refused-value = invalid value '{ $value }' for '{ $arg }': { $why }
usage-extra-value = unexpected value '{ $value }' for '{ $arg }' found; no more were expected
usage-repeated = the argument '{ $arg }' cannot be used multiple times
usage-conflict = the argument '{ $arg }' cannot be used with '{ $prior }'
usage-conflict-list = the argument '{ $arg }' cannot be used with:{ $prior }
usage-missing = the following required arguments were not provided:{ $missing }
usage-unknown-command = unrecognized subcommand '{ $name }'
usage-no-command = '{ $name }' requires a subcommand but one was not provided
usage-not-utf8 = invalid UTF-8 was detected in one or more arguments
usage-commands = [subcommands: { $names }]
usage-tip = tip: { $tip }
usage-similar-command = a similar subcommand exists: '{ $name }'
usage-similar-commands = some similar subcommands exist: { $names }
usage-similar-argument = a similar argument exists: '{ $name }'
usage-similar-arguments = some similar arguments exist: { $names }
usage-similar-value = a similar value exists: '{ $name }'
usage-similar-values = some similar values exist: { $names }
usage-pass-as-value = to pass '{ $arg }' as a value, use '{ $instead }'
usage-exists = '{ $name }' exists
usage-more = For more information, try '--help'.

## Values that cannot be meant
value-share = expected a share such as `85%` or `0.85`
value-share-range = expected a share above 0 and at most 100%, such as `85%` or `0.85`
value-duration = expected a duration such as `90s`, `45m`, `72h` or `3days`
value-interval = expected 1ms to 10s
value-warmup = expected a number of steps or `auto`
value-epochs = expected a number of epochs, such as `3` or `0.5`
value-epochs-range = expected a number of epochs above 0
value-currency = expected a three-letter code such as `USD`
value-count = expected a count such as `7B`, `350M` or `125000000`
value-count-range = expected a count of at least 1 and at most 10^18
value-positive = expected a whole number of at least 1
value-whole = expected a whole number
value-number = expected a number
value-accept = expected CRITERION=REASON, such as `recovery=data order does not matter`
value-accept-criterion = the criteria are memory, time, precision and recovery
