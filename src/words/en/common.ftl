# Sentences that every command may need.

file-not-found = cannot read `{ $path }`: no such file
file-unreadable = cannot read `{ $path }`: { $cause }
file-too-large = cannot read `{ $path }`: larger than { $limit }
file-is-folder = cannot read `{ $path }`: it is a folder
file-not-utf8 = cannot read `{ $path }`: not UTF-8 text
file-unwritable = cannot write `{ $path }`: { $cause }
file-unwritable-hint = name another place with --output
document-unreadable = `{ $path }`: { $cause }
document-hint = onecard writes such a file with `onecard { $kind } --output FILE`
document-newer-hint = update onecard, or write the document again with this version
document-not-json = not JSON: { $what } (line { $line }, column { $column })
document-foreign = not a onecard document: `kind`, `schema` and `body` are missing
document-wrong-kind = a document of kind `{ $found }`, but a `{ $wanted }` document is needed here
document-newer = written in schema { $found }; this onecard reads up to schema { $known }
document-older = written in schema { $found }, which no released onecard used
document-bad-body = body cannot be read: { $what }
document-bad-capability = `{ $text }` is not a compute capability
document-no-count = `{ $value }` is neither a count nor a list
document-no-names = `{ $value }` is no list of names

# What the system says.
system-not-found = no such file or directory
system-permission = permission denied
system-read-only = read-only file system
system-full = no space left on device
system-not-a-folder = not a directory
system-refused = connection refused
system-reset = connection reset
system-unreachable = network unreachable
system-timeout = timed out
system-no-host = no such host, or no network
json-ends = it ends before it is complete
json-mistake = { $said }
json-at = { $what } (line { $line }, column { $column })

line-error = error: { $text }
line-hint = hint: { $text }
line-note = note: { $text }
no-value = –
labelled = { $label }: { $value }
interval-bytes = { $expected } ({ $low } – { $high })

# What the program writes about itself.
own-man-written = man pages are in { $folder }: `man -l { $folder }/onecard.1`
own-with-command = --completions, --man and --licenses stand alone, without a command
