"""Scalars on their way from the GPU: copied to page-locked memory in stream order, read once the copy's event
says that it is done. Nothing waits; what is not ready is looked at again with a later step."""
from collections import deque

import onecard_hook as hook

# Enough for the micro-batches of all the steps that the program can be ahead of the GPU.
SLOTS = 1024
# What this may take of a step at least, on average, and the share of a long step that nobody notices.
LEAST_NS = 6000
SHARE_OF_STEP = 0.0002


class Ring(object):
    def __init__(self, torch, state):
        self.S = state
        self.torch = torch
        self.capturing = torch.cuda.is_current_stream_capturing
        self.device = torch._C._cuda_getDevice
        self.hosts = {}
        self.events = [None] * SLOTS
        self.free = list(range(SLOTS))
        # Oldest first: (slot, dtype, ticket); a ticket is a loss or a scaler's factor.
        self.pending = deque()
        # Nanoseconds spent, steps and their length since the pace was last looked at.
        self.spent = self.steps = self.length = 0
        # What the hook had spent in steps then.
        self.before = state.step_ns
        self.warm = False
        # Every how many steps a loss is taken. Powers of two, so that two runs share what they have.
        self.every = 1

    def wanted(self):
        return self.every == 1 or not (self.S.steps + 1) % self.every

    def pace(self, length):
        """After a step that took `length` ns: how often can this be afforded, beside all else that the hook does?"""
        self.steps += 1
        self.length += length
        if self.steps < 32:
            return
        mean, whole = self.spent / 32, (self.S.step_ns - self.before) / 32
        allowed = max(LEAST_NS, hook.NS_A_STEP - (whole - mean), self.length / 32 * SHARE_OF_STEP)
        if not self.warm:
            # Page-locked memory and events were made in these steps.
            self.warm = True
        elif mean > allowed and self.every < 1024:
            self.every *= 2
        elif mean * 2.5 < allowed and self.every > 1:
            self.every //= 2
        self.spent = self.steps = self.length = 0
        self.before = self.S.step_ns

    def _copy(self, tensor, ticket):
        if not self.free or self.capturing() or tensor.device.index != self.device():
            return None
        tensor = tensor.detach()
        if tensor.dim():
            tensor = tensor.reshape(())
        host = self.hosts.get(tensor.dtype)
        if host is None:
            whole = self.torch.empty(SLOTS, dtype=tensor.dtype, pin_memory=True)
            host = self.hosts[tensor.dtype] = (whole, [None] * SLOTS)
        slot = self.free.pop()
        view = host[1][slot]
        if view is None:
            # Made once for each slot that comes into use.
            view = host[1][slot] = host[0][slot]
        event = self.events[slot]
        if event is None:
            event = self.events[slot] = self.torch.cuda.Event()
        view.copy_(tensor, non_blocking=True)
        event.record()
        self.pending.append((slot, tensor.dtype, ticket))
        return ticket

    def push(self, tensor):
        return self._copy(tensor, Ticket())

    def push_scale(self, tensor, fused):
        ticket = Ticket()
        ticket.is_scale, ticket.fused, ticket.step = True, fused, self.S.steps
        self._copy(tensor, ticket)

    def step_of(self, tickets, step):
        """These losses together are the loss of this step."""
        if not tickets or None in tickets:
            return
        group = Group(step, tickets)
        for ticket in tickets:
            if type(ticket) is not float:
                ticket.group = group

    def collect(self):
        S = self.S
        while self.pending:
            slot, dtype, ticket = self.pending[0]
            if not self.events[slot].query():
                return
            self.pending.popleft()
            value = self.hosts[dtype][1][slot].item()
            self.free.append(slot)
            if ticket.is_scale:
                hook.new_scale(value, ticket.fused, ticket.step)
                continue
            ticket.value = value
            group = ticket.group
            if group is not None and group.whole():
                S.late.append((group.step, group.mean(), len(group.tickets)))


class Ticket(object):
    __slots__ = ("value", "group", "is_scale", "fused", "step")

    def __init__(self):
        self.value = self.group = None
        self.is_scale = self.fused = False


class Group(object):
    __slots__ = ("step", "tickets")

    def __init__(self, step, tickets):
        self.step = step
        self.tickets = tickets

    def whole(self):
        return all(type(t) is float or (t is not None and t.value is not None) for t in self.tickets)

    def mean(self):
        values = [t if type(t) is float else t.value for t in self.tickets]
        return sum(values) / len(values)
