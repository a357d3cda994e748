import type { Benchmark } from './benchmark.ts';
import { cancelAcrossProcesses, cancelLatency } from './cases/cancel-latency.ts';
import { deleteFamily, deletionUnderLoad } from './cases/deletion.ts';
import { fanOutThroughput } from './cases/fan-out.ts';
import { flowMap, flowOverhead } from './cases/flows.ts';
import { helloLatency, helloThroughput } from './cases/hello.ts';
import { idleCost } from './cases/idle.ts';
import { massCancel } from './cases/mass-cancel.ts';
import { rawHello, rawSteps } from './cases/raw.ts';
import { sequentialSteps } from './cases/steps.ts';
import { taskThroughput } from './cases/tasks.ts';
import { timerLateness } from './cases/timers.ts';
import { warmMemory } from './cases/warm-memory.ts';

export interface Case {
  readonly title: string;
  readonly run: Benchmark;
  /** Begin with a file that holds finished instances. */
  readonly onFinished?: boolean;
  /** Left out of quick runs. */
  readonly slow?: boolean;
}

/** Every case by the name that `--only` takes; a baseline stands beside what is compared with it. */
export const cases = {
  rawHello: { title: 'raw SQLite, 7 transactions per hello', run: rawHello },
  hello: { title: 'hello, 64 at a time', run: helloThroughput },
  helloOnFinished: {
    title: 'hello, with 100,000 finished instances in the file',
    run: helloThroughput,
    onFinished: true,
  },
  latency: { title: 'hello, one at a time', run: helloLatency },
  fanOut: { title: '5 activities of 10 ms, 20 instances at a time', run: fanOutThroughput },
  rawSteps100: { title: 'raw SQLite, 100 steps of 2 transactions', run: rawSteps(100) },
  steps100: { title: '100 activities in sequence', run: sequentialSteps(100) },
  rawSteps1000: { title: 'raw SQLite, 1,000 steps of 2 transactions', run: rawSteps(1_000) },
  steps1000: { title: '1,000 activities in sequence', run: sequentialSteps(1_000) },
  rawSteps10000: {
    title: 'raw SQLite, 10,000 steps of 2 transactions',
    run: rawSteps(10_000),
    slow: true,
  },
  steps10000: {
    title: '10,000 activities in sequence',
    run: sequentialSteps(10_000),
    slow: true,
  },
  tasks: { title: '10,000 tasks that do nothing', run: taskThroughput },
  timers: { title: '2,000 timers of 1 s', run: timerLateness },
  idle: { title: 'a worker with nothing to do', run: idleCost },
  memory: { title: 'instances kept warm', run: warmMemory },
  cancel: { title: 'cancel, one at a time', run: cancelLatency },
  cancelAcross: { title: 'cancel, from another process', run: cancelAcrossProcesses },
  deletion: {
    title: '20,000 instances of 10 events deleted beside a load of hellos',
    run: deletionUnderLoad,
  },
  deleteFamily: { title: 'a root with 2,000 children deleted', run: deleteFamily },
  flowOverhead: { title: 'a flow of 20 steps beside an orchestration', run: flowOverhead },
  flowMap: { title: 'a flow with a map of 10,000 items', run: flowMap },
  massCancel: { title: '2,000 activities cancelled by one ack', run: massCancel },
} as const satisfies Readonly<Record<string, Case>>;

export type CaseName = keyof typeof cases;

export const caseNames = Object.keys(cases) as readonly CaseName[];

export function isCaseName(name: string): name is CaseName {
  return Object.hasOwn(cases, name);
}
