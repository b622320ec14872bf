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
