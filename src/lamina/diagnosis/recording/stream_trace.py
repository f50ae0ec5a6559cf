"""The way of the stream through one chain of layers: what happened on it, and how that makes a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from lamina.diagnosis.recording.records import NormRecord, Seen, StackRecord, SublayerRecord
from lamina.diagnosis.recording.structure import Chain
from lamina.diagnosis.recording.taps import Eyes, Key, key_of
from lamina.residual.base import Place


@dataclass(eq=False)
class Step:
    """Something that made one tensor from another: a residual sum, a norm, a function of the stream alone."""

    member: int
    source: Key
    result: Key
    before: Seen
    after: Seen
    branch: Seen | None = None
    """What was added, in a residual sum."""
    kind: str = ""
    norm: tuple[str, nn.Module] | None = None


@dataclass(frozen=True, eq=False)
class End:
    """What went into a member of the chain, or came out."""

    key: Key
    seen: Seen


class Trail:
    """Follows the stream while the model runs; `finish` makes the record."""

    def __init__(self, chain: Chain, eyes: Eyes) -> None:
        self.chain, self.eyes = chain, eyes
        self.steps: list[Step] = []
        self.inputs: dict[int, End] = {}
        self.outputs: dict[int, End] = {}
        self.final_norm: NormRecord | None = None
        self._inside = {each for member in chain.members for each in member.modules()}
        self._member: int | None = None
        self._size = 0
        self._stream: set[Key] = set()
        self._held: list[Tensor] = []  # so that no address is used twice
        self._attends = self._crosses = False

    def enter(self, member: int, x: Tensor) -> None:
        """A member begins. What is called inside a mere list of modules comes here too, and its first input counts."""
        if member not in self.inputs:
            self._size = self._size or x.numel()
            self._member = member
            self.inputs[member] = self._hold(x)
            if member - 1 in self.inputs:
                self.outputs.setdefault(member - 1, self.inputs[member])

    def leave(self, member: int, x: Tensor) -> None:
        if member not in self.outputs:
            self.outputs[member] = self._hold(x)
            self._member = None

    def see_function(self, tensors: Sequence[Tensor], output: Tensor, *, adds: bool) -> None:
        """A sum of stream and branch, or a function of the stream alone."""
        if self._member is None or output.numel() != self._size:
            return
        full = [each for each in tensors if each.numel() == self._size]
        on_stream = [each for each in full if key_of(each) in self._stream]
        if len(on_stream) != 1:
            return
        if len(full) == 1:
            self._step(on_stream[0], output)
        elif adds:
            (branch,) = (each for each in full if each is not on_stream[0])
            self._step(on_stream[0], output).branch = self.eyes.see(branch)
            self.steps[-1].kind = self._kind()
            self._attends = self._crosses = False

    def see_norm(self, path: str, norm: nn.Module, x: Tensor, output: Tensor) -> None:
        if x.numel() != self._size or output.shape != x.shape:
            return
        if norm in self._inside:
            if self._member is not None:
                self._step(x, output).norm = path, norm
        elif self.final_norm is None and self._ends_with(x):
            self.final_norm = NormRecord(path, norm, None, self.eyes.see(x), self.eyes.see(output))
            self._held.append(output)

    def see_attention(self) -> None:
        self._attends |= self._member is not None

    def see_cross_attention(self) -> None:
        self._crosses = True

    def _kind(self) -> str:
        if not self._attends:
            return "feed-forward"
        return "cross-attention" if self._crosses else "self-attention"

    def _step(self, x: Tensor, output: Tensor) -> Step:
        assert self._member is not None
        source, result = key_of(x), key_of(output)
        step = Step(self._member, source, result, self.eyes.see(x), self.eyes.see(output))
        self.steps.append(step)
        self._held += [x, output]
        if source in self._stream:
            self._stream.add(result)
        return step

    def _hold(self, x: Tensor) -> End:
        self._held.append(x)
        self._stream.add(key_of(x))
        return End(key_of(x), self.eyes.see(x))

    def _ends_with(self, x: Tensor) -> bool:
        """Whether x is what the last member left; a mere list of modules does not say when it is through."""
        last, key = len(self.chain.members) - 1, key_of(x)
        if last in self.outputs:
            return self.outputs[last].key == key
        if self._member != last or key not in self._stream:
            return False
        self.leave(last, x)
        return True

    # When the model is through.

    def finish(self, notes: list[str]) -> StackRecord | None:
        """The record of the chain, or None with a note that says why there is none."""
        name, last = self.chain.name, len(self.chain.members) - 1
        if last in self.inputs and last not in self.outputs and self.steps and self.steps[-1].member == last:
            self.outputs[last] = End(self.steps[-1].result, self.steps[-1].after)
        ran = [number for number in sorted(self.inputs) if number in self.outputs]
        if len(ran) < 2:
            notes.append(f"{name}: left out, {len(ran)} of its {last + 1} layers ran")
            return None
        if any(end.seen.value.shape != self.inputs[ran[0]].seen.value.shape for end in self._ends(ran)):
            notes.append(f"{name}: left out, its layers change the shape of what goes through them")
            return None
        return self._record(ran, notes)

    def _ends(self, ran: Sequence[int]) -> Iterator[End]:
        for number in ran:
            yield from (self.inputs[number], self.outputs[number])

    def _record(self, ran: Sequence[int], notes: list[str]) -> StackRecord:
        drafts: list[tuple[int, str, SublayerRecord]] = []
        norms: list[NormRecord] = []
        opaque = 0
        nowhere = Place(0, 0, "", first=False, last=False)
        for number in ran:
            way, first = self._way(number), len(drafts)
            sums = [step for step in way if step.branch is not None]
            layer = self.chain.layer_of(number)
            opaque += not sums
            for at, step in enumerate(sums):
                after = sums[at + 1].before if at + 1 < len(sums) else self.outputs[number].seen
                record = SublayerRecord(nowhere, self._read(step, way), step.branch, (step.before,), (after,))
                drafts.append((layer, step.kind, record))
            if not sums:
                start, end = self.inputs[number].seen, self.outputs[number].seen
                drafts.append((layer, "layer", SublayerRecord(nowhere, start, None, (start,), (end,))))
            norms += self._norms(number, way, sums, first)
        if opaque:
            notes.append(
                f"{self.chain.name}: no residual sum was found in {opaque} of {len(ran)} layers, which are shown whole"
            )
        layers = [layer for layer, _, _ in drafts]
        for index, (layer, kind, record) in enumerate(drafts):
            first_in_layer = index == 0 or layers[index - 1] != layer
            last_in_layer = index == len(drafts) - 1 or layers[index + 1] != layer
            record.place = Place(index, layer, kind, first_in_layer, last_in_layer)
        output = self.outputs[ran[-1]].seen
        if self.final_norm is not None:
            norms.append(self.final_norm)
            output = self.final_norm.output
        sublayers = [record for _, _, record in drafts]
        return StackRecord(self.chain.name, ("x",), self.inputs[ran[0]].seen, sublayers, norms, output)

    def _way(self, member: int) -> list[Step]:
        """The steps that lead from a member's input to its output; none if they do not."""
        current, way = self.outputs[member].key, []
        for step in reversed(self.steps):
            if step.member == member and step.result == current:
                way.append(step)
                current = step.source
        return way[::-1] if current == self.inputs[member].key else []

    def _read(self, addition: Step, way: Sequence[Step]) -> Seen:
        """A norm of the stream that is off its way is what the branch read; else it read the stream."""
        for step in self.steps:
            if step.member == addition.member and step.norm and step.source == addition.source and step not in way:
                return step.after
        return addition.before

    def _norms(self, member: int, way: Sequence[Step], sums: Sequence[Step], first: int) -> Iterator[NormRecord]:
        """A norm on the way belongs to the sum before it, any other to the sum that comes next."""
        own = [step for step in self.steps if step.member == member]
        order = {id(step): at for at, step in enumerate(own)}
        for step in own:
            if step.norm is None:
                continue
            earlier = sum(order[id(each)] < order[id(step)] for each in sums)
            at = earlier - 1 if step in way else earlier
            index = first + min(max(at, 0), max(len(sums) - 1, 0))
            yield NormRecord(*step.norm, index, step.before, step.after)
