"""Successive halving: candidates are ruled out by diagnosis, then by short runs of which the better ones continue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lamina.diagnosis.results import Diagnosis
from lamina.errors import UserError
from lamina.options import Options
from lamina.run_folder.records import RecordFile
from lamina.studies.advice.candidates import Candidate
from lamina.studies.advice.examination import examine_candidate, reason_to_rule_out
from lamina.studies.advice.ladder import FINALISTS, Ladder, TrialCost, final_seconds, plan_ladder, survivors
from lamina.studies.advice.outcome import CandidateOutcome, Recommendation, best_of, rank
from lamina.studies.advice.trial_runner import TrialRunner
from lamina.studies.advice.trials import Clock, trial_config
from lamina.studies.cells import Depth, depth_text
from lamina.studies.samples import Sample
from lamina.tasks import build_task
from lamina.training.config import RunConfig
from lamina.training.length import planned_steps

PROBE_STEPS = 6
"""The steps of the runs that measure how long an update takes."""
DIAGNOSIS_SHARE = 0.2
"""The share of the budget after which further candidates are trained without a diagnosis."""
TOLERANCE = 1.05
"""The largest share of the budget that a rung may be expected to reach."""


@dataclass(frozen=True)
class Question:
    """What advice is wanted on."""

    values: Mapping[str, Any]
    """Those of the config, before validation."""
    where: str
    """The start of error messages, such as the file of the config."""
    config: RunConfig
    candidates: Sequence[Candidate]
    budget: float
    seeds: int

    def config_of(self, candidate: Candidate) -> RunConfig:
        return RunConfig.read(candidate.values(self.values), where=f"{self.where} with {candidate}")

    def record(self) -> dict[str, Any]:
        """The question as JSON, to recognise it when it is asked again."""
        return {
            "config": self.config.model_dump(mode="json"),
            "budget": self.budget,
            "seeds": self.seeds,
            "candidates": [each.name for each in self.candidates],
        }


class AdviceRecord(Options):
    """`advice.json`: the question, and what was decided so far."""

    question: dict[str, Any]
    ruled_out: dict[str, str] = {}
    """Why candidates are not trained, by name."""
    diagnosis_seconds: float = 0.0
    ladder: Ladder | None = None
    rungs: list[list[str]] = []
    """The candidates of each rung."""


class Halving:
    """The search for the best candidate. Every decision is recorded, so that a repeated search makes the same ones."""

    def __init__(self, question: Question, runner: TrialRunner, clock: Clock) -> None:
        self.question, self.runner, self.clock = question, runner, clock
        config = question.config
        task = build_task(config.task, runner.store, config.task_options)
        self.planned = planned_steps(config, task.plan("train", config.data, config.seed))
        self.outcomes = {each.name: CandidateOutcome(each) for each in question.candidates}
        self._file = RecordFile(runner.folder / "advice.json", AdviceRecord)
        self.record = self._file.read() or AdviceRecord(question=question.record())
        if self.record.question != question.record():
            before, now = self.record.question, question.record()
            changed = ", ".join(key for key in now if before.get(key) != now[key])
            raise UserError(f"{runner.folder}: holds an advice on another question ({changed}); give another --folder")

    def run(self) -> Recommendation:
        costs = self._probe()
        if self.record.ladder is None:
            self._choose_entrants(costs)
        ladder = self.record.ladder
        assert ladder is not None
        for name, reason in self.record.ruled_out.items():
            self.outcomes[name].ruled_out = reason
        for number, until in enumerate(ladder.rungs):
            if number == len(self.record.rungs):
                self._note(rungs=[*self.record.rungs, self._choose_survivors(number, ladder, costs)])
            going = [self.outcomes[name] for name in self.record.rungs[number]]
            self._train(going, number, until, ladder)
        outcomes = rank(list(self.outcomes.values()))
        advice = Recommendation(outcomes, ladder, self.question.budget, self._spent())
        if not advice.finalists:
            last = [self.outcomes[name] for name in self.record.rungs[-1]]
            raise UserError(
                f"{self.question.where}: {last[0].candidate}, the best until then, failed: {last[0].failed}"
            )
        return advice

    def _probe(self) -> dict[Depth, TrialCost]:
        """What trials of each depth cost, by runs of a few steps."""
        first = {each.depth: each for each in reversed(self.question.candidates)}
        configs = {f"probe-{depth_text(depth)}": self._trial(each, PROBE_STEPS) for depth, each in first.items()}
        self.runner.train(configs, PROBE_STEPS, "time of a step")
        return {
            depth: self.runner.cost(name, PROBE_STEPS)
            for depth, name in zip(first, configs, strict=True)
            if not self.runner.failure(name)
        }

    def _choose_entrants(self, costs: Mapping[Depth, TrialCost]) -> None:
        """The candidates of the first rung: the first ones that no diagnosis rules out, as many as can be trained."""
        candidates = [each for each in self.question.candidates if each.depth in costs]
        if not candidates:
            raise UserError(f"{self.question.where}: no candidate could be trained for {PROBE_STEPS} steps")
        most = self._plan(TrialCost.mean(list(costs.values())), len(candidates)).candidates
        entrants: list[Candidate] = []
        diagnoses: dict[Any, Diagnosis | None] = {}
        ruled_out: dict[str, str] = {}
        for each in candidates:
            if len(entrants) == most:
                break
            if reason := self._reason_to_rule_out(each, diagnoses):
                ruled_out[each.name] = reason
            else:
                entrants.append(each)
            self.runner.progress("diagnosis", len(entrants), most)
        if not entrants:
            first = next(iter(ruled_out.values()))
            raise UserError(f"{self.question.where}: every candidate is expected to fail. The first: {first}")
        ladder = self._plan(TrialCost.mean([costs[each.depth] for each in entrants]), len(entrants))
        names = [each.name for each in entrants[: ladder.candidates]]
        self._note(ladder=ladder, rungs=[names], ruled_out=ruled_out)

    def _reason_to_rule_out(self, candidate: Candidate, diagnoses: dict[Any, Diagnosis | None]) -> str | None:
        config = self.question.config_of(candidate)
        if candidate.model not in diagnoses:
            if self.record.diagnosis_seconds > DIAGNOSIS_SHARE * self.question.budget:
                return None
            began = self.clock()
            diagnoses[candidate.model] = examine_candidate(config, self.runner.folder / candidate.name)
            self._note(diagnosis_seconds=self.record.diagnosis_seconds + self.clock() - began)
        return reason_to_rule_out(diagnoses[candidate.model], config)

    def _choose_survivors(self, number: int, ladder: Ladder, costs: Mapping[Depth, TrialCost]) -> list[str]:
        """The best of the rung before, as many as the rest of the budget allows."""
        before = [self.outcomes[name] for name in self.record.rungs[number - 1]]
        losses = {each.candidate.name: each.final.mean for each in before if not each.failed}
        if not losses:
            raise UserError(f"{self.question.where}: every candidate failed. The first: {before[0].failed}")
        is_last = number == len(ladder.rungs) - 1
        most = FINALISTS if is_last else survivors(len(before))
        left = TOLERANCE * self.question.budget - self._spent()
        best = best_of(losses, most)
        while len(best) > 1 and self._expected(best, is_last, ladder, costs) > left:
            best.pop()
        return best

    def _expected(self, names: Sequence[str], is_last: bool, ladder: Ladder, costs: Mapping[Depth, TrialCost]) -> float:
        """The seconds that these candidates will take to the end of the ladder."""
        chosen = [costs[self.outcomes[name].candidate.depth] for name in names]
        finalists = chosen[:FINALISTS]
        final = final_seconds(TrialCost.mean(finalists), ladder, len(finalists), self.question.seeds)
        first, second, _ = ladder.rungs
        return final if is_last else final + sum(each.of(second - first) for each in chosen)

    def _train(self, going: Sequence[CandidateOutcome], number: int, until: int, ladder: Ladder) -> None:
        """Train one rung, and note the losses of every candidate in it."""
        is_last = number == len(ladder.rungs) - 1
        start = self.question.config.seed
        seeds = range(start, start + (self.question.seeds if is_last else 1))
        trials = {(each.candidate, seed): f"{each.candidate.name}-seed{seed}" for seed in seeds for each in going}
        configs = {name: self._trial(each, ladder.length, seed) for (each, seed), name in trials.items()}
        self.runner.train(configs, until, f"{until:,} steps")
        for each in going:
            names = {seed: trials[each.candidate, seed] for seed in seeds}
            each.losses[until] = Sample({seed: self.runner.loss(name, until) for seed, name in names.items()})
            each.failed = next(filter(None, map(self.runner.failure, names.values())), "")
            each.seconds_per_step = self.runner.seconds_per_step(names[start])

    def _trial(self, candidate: Candidate, length: int, seed: int | None = None) -> RunConfig:
        config = self.question.config_of(candidate)
        return trial_config(config, config.seed if seed is None else seed, length, self.planned)

    def _plan(self, cost: TrialCost, candidates: int) -> Ladder:
        return plan_ladder(self.question.budget - self._spent(), cost, candidates, self.question.seeds, self.planned)

    def _spent(self) -> float:
        return self.record.diagnosis_seconds + self.runner.seconds()

    def _note(self, **decided: Any) -> None:
        self.record = self.record.model_copy(update=decided)
        self._file.write(self.record)
