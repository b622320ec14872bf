# Reading a model's configuration and finding models.

config-not-json = the configuration is not JSON: { $cause }
config-not-object = the configuration is JSON but not an object
config-missing-key = the configuration has no `{ $key }`, and `{ $model_type }` has no default for it
config-missing-key-hint = name a complete config.json with --config FILE, or give the size alone with --params 7B
config-bad-count = the configuration's `{ $key }` is `{ $value }`, not a plausible count
config-kv-heads = the configuration has { $kv } key/value heads for { $heads } attention heads, which cannot be grouped
config-head-dim = hidden size { $hidden } does not divide by { $heads } heads and the configuration has no `head_dim`
config-no-model-type = the configuration has neither a `model_type` nor a hidden size and a number of layers
config-unknown-family = the architecture `{ $model_type }` is not known here, and its configuration does not say its sizes by the usual names
config-read-by-shape = the architecture `{ $model_type }` is not known here: read by its dimensions as a Llama-like decoder, so the interval is wider
config-text-part = only the text part (`{ $key }`) of `{ $model_type }` is counted, without its image or audio towers
config-quantized = the checkpoint is stored quantized ({ $method }): its size differs from the plan's element types

safetensors-header-size = the header announces { $length }, which no safetensors file has
safetensors-header-cut = the header announces { $length }, but the whole file has { $total }
safetensors-header-broken = the header is not that of a safetensors file: { $cause }
safetensors-index-broken = not an index of safetensors files: { $cause }
safetensors-no-shape = the tensors are not those of a decoder known here, and no config.json lies beside the file
safetensors-guessed = no config.json beside the file: the shape was taken from its tensors, the width of a head from habit
gguf-cut = the file ends within its header
gguf-broken = not a GGUF file that can be read: { $what }
gguf-no-shape = the file's metadata does not say the sizes of its architecture
adapter-broken = not a PEFT adapter configuration: { $cause }
adapter-on-adapter = its base `{ $base }` is an adapter folder, not a model
adapter-base = its base `{ $base }` was not found: { $cause }

model-file = `{ $path }`: { $what }
model-folder-empty = `{ $path }` has no config.json, adapter_config.json, safetensors or GGUF file
model-path-hint = name a config.json, a folder that holds one, a .safetensors or a .gguf file
model-unknown = no model `{ $name }`
model-unknown-hint = give a preset, a path to a config.json, a hub id `org/name`, or the size alone with --params 7B
model-near-hint = did you mean { $names }?

hub-offline = `{ $id }` is not in the local hub cache, and HF_HUB_OFFLINE forbids asking the hub
hub-offline-hint = unset HF_HUB_OFFLINE, point HF_HOME to the cache that has it, or name its config.json with --config FILE
hub-unreached = the hub at { $endpoint } cannot be reached: { $cause }
hub-timeout = the hub at { $endpoint } did not answer within { $seconds } s
hub-unreached-hint = set HF_ENDPOINT to a mirror that can be reached, or name the model's config.json with --config FILE
hub-cut = the connection ended before all of `{ $url }` had come
hub-too-large = the hub at { $endpoint } sent more than { $limit } for a configuration
hub-not-text = `{ $url }` is not UTF-8 text
hub-gated = `{ $id }` is gated: its authors must grant access first
hub-gated-hint = ask for access on the model's page, then use a token of that account (HF_TOKEN), or name its config.json with --config FILE
hub-token-hint = if the name is right, set HF_TOKEN to a token that may read `{ $id }`, or name its config.json with --config FILE
hub-closed = `{ $id }` does not exist on the hub, or is private
hub-denied = the token in HF_TOKEN may not read `{ $id }`
hub-denied-hint = use a token that may read it, or name its config.json with --config FILE
hub-not-found = there is no `{ $id }` on the hub
hub-no-file = `{ $id }` has no { $file }
hub-status = the hub at { $endpoint } answered with status { $status }
hub-shard-missing = `{ $file }` is in the index but not in the repository
hub-no-headers = the weight files' headers could not be read ({ $cause }): parameters are counted from the configuration alone

vision-unknown = no image network `{ $name }` is known here
vision-unknown-hint = known are { $names }
vision-resolution = `{ $name }` does not take images of { $resolution } pixels a side
vision-resolution-hint = give --resolution in steps of { $step }, from { $smallest } on; it was made for { $usual }
config-text-and-tower = `{ $model_type }` is estimated for text alone (`{ $key }`): its image tower's weights are counted, what images add is not
