# Sentences of `onecard env`.

# Why one figure could not be read (`gaps[].reason`).
unread-not-supported = the driver does not offer this on this GPU
unread-no-permission = no permission
unread-no-symbol = the driver's library is older than this query
unread-not-found = the driver has no entry for it
unread-lost = the GPU has fallen off the bus or needs a reset
unread-not-ready = the GPU is not ready for work yet (confidential computing)
unread-blocked = the device is blocked for this process by a cgroup or the system
unread-no-value = the driver answers "not available"
unread-unsafe-process-list = drivers 535.43 to 535.98 return process lists in a broken layout; update to 535.104 or later
unread-too-soon = needs two samples at least 100 ms apart
unread-other = the driver library says: { $what }
