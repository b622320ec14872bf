"""Scalars on their way from the GPU: copied to page-locked memory in stream order, read once the copy's event
says that it is done. Nothing waits; what is not ready is looked at again with a later step."""
SLOTS = 64


class Ring(object):
    def __init__(self, torch, state):
        self.torch = torch
        self.S = state
        self.hosts = {}
        self.events = [None] * SLOTS
        self.free = list(range(SLOTS))
        # Oldest first: (slot, dtype, ticket); a ticket is a loss or a scaler's factor.
        self.pending = []
        self.steps = {}

    def _copy(self, tensor, ticket):
        torch = self.torch
        if not self.free or torch.cuda.is_current_stream_capturing():
            return None
        if tensor.device.index != torch.cuda.current_device():
            return None
        tensor = tensor.detach()
        host = self.hosts.get(tensor.dtype)
        if host is None:
            host = self.hosts[tensor.dtype] = torch.empty(SLOTS, dtype=tensor.dtype, pin_memory=True)
        slot = self.free.pop()
        event = self.events[slot]
        if event is None:
            event = self.events[slot] = torch.cuda.Event()
        with torch.no_grad():
            host[slot].copy_(tensor.reshape(()), non_blocking=True)
        event.record()
        self.pending.append((slot, tensor.dtype, ticket))
        return ticket

    def push(self, tensor):
        return self._copy(tensor, Ticket())

    def push_scale(self, tensor, fused):
        ticket = Ticket()
        ticket.is_scale, ticket.fused = True, fused
        self._copy(tensor, ticket)

    def step_of(self, tickets, step):
        """These losses together are the loss of this step."""
        group = Group(step, tickets)
        for ticket in tickets:
            if ticket is not None and type(ticket) is not float:
                ticket.group = group

    def collect(self):
        S = self.S
        while self.pending:
            slot, dtype, ticket = self.pending[0]
            if not self.events[slot].query():
                return
            self.pending.pop(0)
            value = self.hosts[dtype][slot].item()
            self.free.append(slot)
            if ticket.is_scale:
                self._scale(value, ticket)
                continue
            ticket.value = value
            group = ticket.group
            if group is not None and group.whole():
                S.late.append((group.step, group.mean(), len(group.tickets)))

    def _scale(self, value, ticket):
        S = self.S
        # A fused optimizer is called although it will skip: only the lowered factor tells.
        if ticket.fused and S.scale is not None and value < S.scale:
            S.skipped += 1
        S.scale = value


class Ticket(object):
    __slots__ = ("value", "group", "is_scale", "fused")

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

