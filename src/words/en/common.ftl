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

label-error = error
label-hint = hint
label-note = note
no-value = –
interval-bytes = { $expected } ({ $low } – { $high })
