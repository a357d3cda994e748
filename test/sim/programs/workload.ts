import type { ObservedCall } from '../engine/connection.ts';
import type { Definitions } from '../engine/fleet.ts';
import type { SimProcess } from '../engine/scheduler.ts';
import type { Simulation } from '../simulation.ts';
import { AllInstances } from './all-instances.ts';
import { AttachedWork } from './attached-work.ts';
import { EventWork } from './event-work.ts';
import { FailureWork } from './failure-work.ts';
import { FeatureWork } from './feature-work.ts';
import { LimitWork } from './limit-work.ts';
import { TaskWork } from './task-work.ts';
import { ScriptWork } from './script-work.ts';

/** A part of the work of a simulation: one feature of the product. */
export interface WorkPart {
  define(process: SimProcess, isOldBuild: boolean): Definitions;
  /** Schedules the calls of the clients. */
  begin(): void;
  observe?(call: ObservedCall): void;
  /** Faults have ended: resumes what is paused, and raises missing events. */
  heal(): void;
  /** Names of what has not ended. */
  unfinished(): readonly string[];
  /** Checks outcomes after everything has ended. */
  check?(): Promise<void>;
}

/** All work of one simulation. */
export class Workload {
  readonly parts: readonly WorkPart[];

  constructor(parts: readonly WorkPart[]) {
    this.parts = parts;
  }

  define(process: SimProcess, isOldBuild: boolean): Definitions {
    const all = this.parts.map((part) => part.define(process, isOldBuild));
    // An old build lacks some definitions.
    const isKnown = ({ name }: { readonly name: string }): boolean =>
      !isOldBuild || (name !== 'feature work' && name !== 'plain' && name !== 'batched');
    const retention = all.flatMap((one) => one.retention ?? [])[0];
    return {
      orchestrations: all.flatMap((one) => one.orchestrations ?? []),
      activities: all.flatMap((one) => one.activities ?? []).filter(isKnown),
      tasks: all.flatMap((one) => one.tasks ?? []).filter(isKnown),
      flows: all.flatMap((one) => one.flows ?? []),
      ...(retention !== undefined && { retention }),
    };
  }

  begin(): void {
    for (const part of this.parts) part.begin();
  }

  observe(call: ObservedCall): void {
    for (const part of this.parts) part.observe?.(call);
  }

  heal(): void {
    for (const part of this.parts) part.heal();
  }

  unfinished(): readonly string[] {
    for (const part of this.parts) {
      const unfinished = part.unfinished();
      if (unfinished.length > 0) return unfinished;
    }
    return [];
  }
}

/** Chooses the work of a seed. Task definitions are always there: orchestrations call them. */
export function createWorkload(simulation: Simulation): Workload {
  const { decisions } = simulation.world;
  const kind = decisions.draw('work');
  const scripts = kind < 0.6 ? [new ScriptWork(simulation)] : [];
  const hasFeatures = kind > 0.45 && kind < 0.85;
  const features = hasFeatures ? [new FeatureWork(simulation)] : [];
  const tasks = hasFeatures || kind > 0.75 ? [new TaskWork(simulation)] : [];
  const attached = kind > 0.85 || kind < 0.08 ? [new AttachedWork(simulation)] : [];
  const limits = decisions.draw('work limits') < 0.2 ? [new LimitWork(simulation)] : [];
  const events = decisions.draw('work events') < 0.12 ? [new EventWork(simulation)] : [];
  const failures = decisions.draw('work failures') < 0.15 ? [new FailureWork(simulation)] : [];
  if (tasks.length > 0 || limits.length > 0) simulation.checkLimits();
  return new Workload([
    ...scripts,
    ...features,
    ...tasks,
    ...attached,
    ...limits,
    ...events,
    ...failures,
    new AllInstances(simulation),
  ]);
}
