"""Traces the residual stream through the repeated layers of a foreign module, and makes a record of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lamina.diagnosis.recording.records import NormRecord, RecordedTensor, StackRecord, SublayerRecord
from lamina.diagnosis.recording.structure import RepeatedLayers
from lamina.diagnosis.recording.taps import StorageKey, Taps, key_of
from lamina.residual.base import Place

PARALLEL = "attention and feed-forward"
"""The kind of a sub-layer whose branch is the sum of attention and feed-forward, which read the same stream."""


@dataclass(eq=False)
class Operation:
    """One tensor made from another: a residual sum, a norm, or a function of the stream alone, such as dropout."""

    member: int
    """The member of the repeated layers in which it ran."""
    source: StorageKey
    result: StorageKey
    before: RecordedTensor
    after: RecordedTensor
    branch: RecordedTensor | None = None
    """The other summand of a residual sum."""
    kind: str = ""
    """The kind of sub-layer that computed the branch."""
    norm: tuple[str, nn.Module] | None = None
    """The path and the module, if the operation is a norm."""
    repeats: StorageKey | None = None
    """The other summand of a sum of two values of the stream, the earlier one."""


@dataclass(frozen=True, eq=False)
class Boundary:
    """The input or the output of a member of the repeated layers."""

    key: StorageKey
    recorded: RecordedTensor


class StreamTrace:
    """Collects the operations on the stream while the model runs; `finish` makes the record."""

    def __init__(self, layers: RepeatedLayers, taps: Taps) -> None:
        self.layers, self.taps = layers, taps
        self.operations: list[Operation] = []
        self.inputs: dict[int, Boundary] = {}
        self.outputs: dict[int, Boundary] = {}
        self.final_norm: NormRecord | None = None
        self._modules = {each for member in layers.members for each in member.modules()}
        self._member: int | None = None
        self._size = 0
        self._shape: torch.Size | None = None
        self._stream: set[StorageKey] = set()
        self._held: list[Tensor] = []  # references, so that no storage address is used twice
        self._attends = self._crosses = self._mixes = False
        self._calls: Counter[int] = Counter()
        self._sums: set[StorageKey] = set()  # sums of two branches

    # While the model runs.

    def enter(self, member: int, x: Tensor) -> None:
        """Begin a member; if it is a list, called for each module inside, of which the first input is used."""
        member = self._number_of_call(member)
        if member not in self.inputs:
            self._size = self._size or x.numel()
            self._shape = self._shape or x.shape
            self._member = member
            self.inputs[member] = self._boundary(x)
            if member - 1 in self.inputs:
                self.outputs.setdefault(member - 1, self.inputs[member])

    def leave(self, member: int, x: Tensor) -> None:
        module = self.layers.members[member] if member < len(self.layers.members) else None
        if module is not None and self._is_shared(module):
            self._calls[id(module)] += 1
            member = self._member if self._member is not None else member
        if member not in self.outputs:
            self.outputs[member] = self._boundary(x)
            self._member = None

    def _is_shared(self, module: nn.Module) -> bool:
        return self.layers.calls_repeat or self.layers.members.count(module) > 1

    def _number_of_call(self, member: int) -> int:
        """The number of the layer: of a module that is several layers, which of its calls this is."""
        module = self.layers.members[member]
        if not self._is_shared(module):
            return member
        calls = self._calls[id(module)]
        places = [number for number, each in enumerate(self.layers.members) if each is module]
        return calls if self.layers.calls_repeat else places[min(calls, len(places) - 1)]

    def add_function(self, tensors: Sequence[Tensor], output: Tensor, *, is_sum: bool) -> None:
        """Add a sum of stream and branch, or a function of the stream alone."""
        if self._member is None or output.numel() != self._size:
            return
        full = [each for each in tensors if each.numel() == self._size]
        on_stream = [each for each in full if key_of(each) in self._stream]
        if is_sum and not on_stream and len(full) == 2 and self._attends:
            self._sums.add(key_of(output))
            self._held.append(output)
        if is_sum and len(on_stream) == 2:
            earlier, later = sorted(on_stream, key=lambda each: self._order(key_of(each)))
            self._add(later, output).repeats = key_of(earlier)
        if len(on_stream) != 1:
            return
        if len(full) == 1:
            self._add(on_stream[0], output)
        elif is_sum:
            (branch,) = (each for each in full if each is not on_stream[0])
            self._add(on_stream[0], output).branch = self._recorded(branch)
            self.operations[-1].kind = PARALLEL if key_of(branch) in self._sums else self._kind()
            self._attends = self._crosses = self._mixes = False

    def add_norm(self, path: str, norm: nn.Module, x: Tensor, output: Tensor) -> None:
        if x.numel() != self._size or output.shape != x.shape:
            return
        if norm in self._modules:
            if self._member is not None:
                self._add(x, output).norm = path, norm
        elif self.final_norm is None and self._ends_with(x):
            self.final_norm = NormRecord(path, norm, None, self.taps.record(x), self.taps.record(output))
            self._held.append(output)

    def add_attention(self) -> None:
        self._attends |= self._member is not None

    def add_cross_attention(self) -> None:
        self._crosses = True

    def add_state_space(self) -> None:
        self._mixes |= self._member is not None

    def _order(self, key: StorageKey) -> int:
        """The number of the operation whose result this is; -1 for the input of a layer."""
        return max((at for at, each in enumerate(self.operations) if each.result == key), default=-1)

    def _kind(self) -> str:
        if self._mixes:
            return "state-space"
        if not self._attends:
            return "feed-forward"
        return "cross-attention" if self._crosses else "self-attention"

    def _add(self, x: Tensor, output: Tensor) -> Operation:
        assert self._member is not None
        source, result = key_of(x), key_of(output)
        operation = Operation(self._member, source, result, self._recorded(x), self._recorded(output))
        self.operations.append(operation)
        self._held += [x, output]
        if source in self._stream:
            self._stream.add(result)
        return operation

    def _boundary(self, x: Tensor) -> Boundary:
        self._held.append(x)
        self._stream.add(key_of(x))
        return Boundary(key_of(x), self._recorded(x))

    def _recorded(self, x: Tensor) -> RecordedTensor:
        """The record of a tensor, in the shape of the stream: OPT flattens all positions before its feed-forward."""
        recorded, shape = self.taps.record(x), self._shape
        if shape is not None and x.shape != shape and x.numel() == shape.numel() and x.shape[-1] == shape[-1]:
            recorded.value = recorded.value.reshape(shape)
        return recorded

    def _ends_with(self, x: Tensor) -> bool:
        """Whether x is the output of the last member; a member that is a list has no hook at its end."""
        last, key = self._last, key_of(x)
        if last in self.outputs:
            return self.outputs[last].key == key
        if self._member != last or key not in self._stream:
            return False
        self.leave(last, x)
        return True

    @property
    def _last(self) -> int:
        """The number of the last member; of a module that is called several times, of its last call."""
        return max(self.inputs, default=0) if self.layers.calls_repeat else len(self.layers.members) - 1

    # After the pass.

    def finish(self, notes: list[str]) -> StackRecord | None:
        """The record of the stack, or None with a note that says why there is none."""
        name, last = self.layers.name, self._last
        if last in self.inputs and last not in self.outputs and self.operations and self.operations[-1].member == last:
            self.outputs[last] = Boundary(self.operations[-1].result, self.operations[-1].after)
        ran = [number for number in sorted(self.inputs) if number in self.outputs]
        if len(ran) < 2:
            notes.append(f"{name}: left out, {len(ran)} of its {last + 1} layers ran")
            return None
        shape = self.inputs[ran[0]].recorded.value.shape
        if any(each[number].recorded.value.shape != shape for number in ran for each in (self.inputs, self.outputs)):
            notes.append(f"{name}: left out, its layers change the shape of their input")
            return None
        return self._record(ran, notes)

    def _record(self, ran: Sequence[int], notes: list[str]) -> StackRecord:
        drafts: list[tuple[int, str, SublayerRecord]] = []
        norms: list[NormRecord] = []
        repeated: list[int] = []
        without_sums = 0
        unplaced = Place(0, 0, "", first=False, last=False)
        for number in ran:
            path, first = self._path_through(number), len(drafts)
            sums = [each for each in path if each.branch is not None]
            layer = self.layers.layer_of(number)
            without_sums += not sums
            repeated += [layer for at in range(len(path)) if _repeats_without_norm(path[: at + 1])]
            for at, addition in enumerate(sums):
                after = sums[at + 1].before if at + 1 < len(sums) else self.outputs[number].recorded
                read = self._input_of_branch(addition, path)
                record = SublayerRecord(unplaced, read, addition.branch, (addition.before,), (after,))
                drafts.append((layer, addition.kind, record))
            if not sums:
                start, end = self.inputs[number].recorded, self.outputs[number].recorded
                drafts.append((layer, "layer", SublayerRecord(unplaced, start, None, (start,), (end,))))
            norms += self._norms(number, path, sums, first)
        if without_sums:
            notes.append(
                f"{self.layers.name}: no residual sum was found in {without_sums} of {len(ran)} layers, which are "
                "shown whole"
            )
        layers = [layer for layer, _, _ in drafts]
        for index, (layer, kind, record) in enumerate(drafts):
            first_in_layer = index == 0 or layers[index - 1] != layer
            last_in_layer = index == len(drafts) - 1 or layers[index + 1] != layer
            record.place = Place(index, layer, kind, first_in_layer, last_in_layer)
        output = self.outputs[ran[-1]].recorded
        if self.final_norm is not None:
            norms.append(self.final_norm)
            output = self.final_norm.output
        sublayers = [record for _, _, record in drafts]
        return StackRecord(
            self.layers.name, ("x",), self.inputs[ran[0]].recorded, sublayers, norms, output, repeated=repeated
        )

    def _path_through(self, member: int) -> list[Operation]:
        """The operations that lead from a member's input to its output; none if they do not connect."""
        current, path = self.outputs[member].key, []
        for operation in reversed(self.operations):
            if operation.member == member and operation.result == current:
                path.append(operation)
                current = operation.source
        return path[::-1] if current == self.inputs[member].key else []

    def _input_of_branch(self, addition: Operation, path: Sequence[Operation]) -> RecordedTensor:
        """The output of a norm that reads the stream and is not on its path, if there is one; else the stream."""
        for each in self.operations:
            if each.member == addition.member and each.norm and each.source == addition.source and each not in path:
                return each.after
        return addition.before

    def _norms(
        self, member: int, path: Sequence[Operation], sums: Sequence[Operation], first: int
    ) -> Iterator[NormRecord]:
        """A norm on the path of the stream belongs to the sum before it, any other norm to the sum after it."""
        own = [each for each in self.operations if each.member == member]
        order = {id(each): at for at, each in enumerate(own)}
        for each in own:
            if each.norm is None:
                continue
            earlier = sum(order[id(addition)] < order[id(each)] for addition in sums)
            at = earlier - 1 if each in path else earlier
            index = first + min(max(at, 0), max(len(sums) - 1, 0))
            yield NormRecord(*each.norm, index, each.before, each.after)


def _repeats_without_norm(path: Sequence[Operation]) -> bool:
    """Whether the last operation adds an earlier value of the stream again, and no norm lies between the two."""
    last = path[-1]
    if last.repeats is None:
        return False
    between: list[Operation] = []
    for each in reversed(path[:-1]):
        if each.result == last.repeats:
            break
        between.append(each)
    return not any(each.norm for each in between)
