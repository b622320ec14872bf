# Sentences of `onecard estimate`.

## What cannot be meant
estimate-zero = `{ $flag } 0`: must be at least 1
estimate-zero-hint = leave the flag out for its default (see `onecard estimate --help`)
estimate-dropout = `--lora-dropout`: must be at least 0 and below 1
estimate-dropout-hint = a usual value is 0.05
estimate-not-positive = `{ $flag }`: must be a number above 0
estimate-not-positive-hint = leave `{ $flag }` out if it does not matter
estimate-currency = `--currency { $code }`: not an ISO 4217 code
estimate-currency-hint = use three capital letters, such as USD, EUR or CNY
estimate-qlora-unquantized = `--method qlora` and `--quant none` contradict each other: QLoRA is LoRA on quantized weights
estimate-qlora-unquantized-hint = use `--method lora` for unquantized weights, or leave `--quant` out for nf4
estimate-full-quantized = `--method full` cannot train quantized weights
estimate-full-quantized-hint = use `--method qlora` to train adapters on quantized weights, or leave `--quant` out
estimate-seq-of-images = `--seq` has no meaning for a vision model
estimate-seq-of-images-hint = use `--resolution` for the size of an image in pixels
estimate-resolution-of-text = `--resolution` has no meaning for a text model
estimate-resolution-of-text-hint = use `--seq` for the length of a sequence in tokens
estimate-seq-too-long = `--seq { $seq }` is beyond the model's limit of { $max } tokens
estimate-seq-too-long-hint = use `--seq { $max }` or less
estimate-generate-too-long = `--seq { $seq }` and `--generate { $generate }` together are beyond the model's limit of { $max } tokens
estimate-generate-too-long-hint = use `--generate { $room }` or less, or a shorter prompt
estimate-no-targets = `--lora-targets` names no layer
estimate-no-targets-hint = use `all-linear`, or names such as `q_proj,v_proj`
estimate-no-adapters = `{ $flag }` has no meaning without adapters
estimate-no-adapters-hint = add `--method lora` or `--method qlora`, or leave `{ $flag }` out
estimate-zero-and-fsdp = `--zero` and `--fsdp` contradict each other: both shard the same tensors
estimate-zero-and-fsdp-hint = choose one; `--fsdp` shards as ZeRO stage 3 does
estimate-nothing-to-shard = `{ $flag }` with one GPU: there is nobody to share with
estimate-nothing-to-shard-hint = add `--gpus 2` or more, or leave `{ $flag }` out
estimate-two-lengths = `{ $first }` and `{ $second }` both state the length of the run
estimate-two-lengths-hint = give one of `--steps`, `--epochs` with `--samples`, or `--tokens`
estimate-epochs-samples = `--epochs` and `--samples` go together
estimate-epochs-samples-hint = `--samples` is the number of examples in the data set, `--epochs` how often each is seen
