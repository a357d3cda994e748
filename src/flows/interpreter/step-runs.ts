import { isPerdureError, type DurablePromise } from '../../index.ts';
import { quote } from '../definition/flow-errors.ts';
import { activityNames, isStreamed, itemsEvent, type StepNode } from '../definition/graph.ts';
import type { GeneratedItems, ReduceInput } from '../definition/run-format.ts';
import { ItemRuns, type OutputStream } from './items.ts';
import type { LiveFlow, LiveStep } from './live-flow.ts';
import { dependencyOutputs, sourceItems } from './step-rules.ts';

const defaultConcurrency = 1_000;
const defaultBatch = 100;

/** Runs a step whose dependencies have settled, and returns its output. */
export async function runStep(flow: LiveFlow, step: LiveStep): Promise<unknown> {
  const given = { ...(await flow.signalOf(step)), ...dependencyOutputs(step.node, flow) };
  step.given = given;
  switch (step.node.kind) {
    case 'step':
      return flow.call(name(flow, step.node), { input: flow.input, ...given }, step.node);
    case 'map':
      return runMap(flow, step, given);
    case 'generator':
      return runGenerator(flow, step, given);
    case 'reduce':
      return runReduce(flow, step, given);
  }
}

type Given = Readonly<Record<string, unknown>>;

async function runMap(flow: LiveFlow, step: LiveStep, given: Given): Promise<unknown> {
  const stream = streamOf(step);
  const items = sourceItems(step.node, flow);
  const runs = itemRuns(flow, step, given);
  runs.add(items);
  runs.complete();
  await runs.done;
  stream.end(items.length);
  return stream.all();
}

/** Runs items while the generator yields them. Each index is accepted once, so retries may send items again. */
async function runGenerator(flow: LiveFlow, step: LiveStep, given: Given): Promise<unknown> {
  const { node } = step;
  const stream = streamOf(step);
  const runs = itemRuns(flow, step, given);
  const all = Promise.withResolvers<void>();
  let total: number | undefined;
  let wait: DurablePromise<unknown> | undefined;
  const finishOrListen = (): void => {
    if (total === undefined || runs.count < total) {
      if (wait === undefined) listen();
      return;
    }
    wait?.cancel('all items are there');
    runs.complete();
    all.resolve();
  };
  const listen = (): void => {
    wait = flow.ctx.waitFor(itemsEvent(node.name));
    wait.then(take).catch(all.reject);
  };
  const take = (batch: unknown): void => {
    wait = undefined;
    runs.add(newItems(batch as GeneratedItems, runs.count));
    finishOrListen();
  };
  const finish = (count: unknown): void => {
    total = count as number;
    finishOrListen();
  };
  const generate = activityNames.generate(flow.graph.name, node.name);
  const generated = flow.call(generate, { input: flow.input, ...given }, node);
  generated.then(finish).catch(all.reject);
  listen();
  // Rejects as soon as an item fails, even while the generator runs.
  await Promise.all([all.promise, runs.done]);
  stream.end(runs.count);
  return stream.all();
}

/** Returns the items of a batch that were not received before. */
function newItems({ offset, items }: GeneratedItems, count: number): readonly unknown[] {
  if (offset > count)
    throw new Error(`Items ${count} to ${offset - 1} of a generator are missing.`);
  return items.slice(count - offset);
}

async function runReduce(flow: LiveFlow, step: LiveStep, given: Given): Promise<unknown> {
  const { node } = step;
  const take = batchesOf(flow, step);
  let accumulator = node.initial;
  let offset = 0;
  for (let items = await take(); items.length > 0; items = await take()) {
    accumulator = await fold(flow, node, { accumulator, items, offset, ...toInputs(given) });
    offset += items.length;
  }
  return accumulator;
}

/** Folds a batch. Splits a batch that exceeds the payload limit into halves. */
async function fold(flow: LiveFlow, node: StepNode, batch: ReduceInput): Promise<unknown> {
  const { items, offset } = batch;
  try {
    return await flow.call(name(flow, node), batch, node);
  } catch (error) {
    if (!isPerdureError(error, 'PAYLOAD_TOO_LARGE') || items.length === 1) throw error;
    const middle = Math.ceil(items.length / 2);
    const accumulator = await fold(flow, node, { ...batch, items: items.slice(0, middle) });
    const rest = { ...batch, items: items.slice(middle), offset: offset + middle };
    return fold(flow, node, { ...rest, accumulator });
  }
}

/** Returns a function that resolves with the next batch of a reduce, and with no items at the end. */
function batchesOf(flow: LiveFlow, step: LiveStep): () => Promise<readonly unknown[]> {
  const { node } = step;
  const size = node.batch ?? defaultBatch;
  if (isStreamed(node, flow.graph)) {
    const source = streamOf(flow.step(node.over?.[0] ?? ''));
    const reader = flow.readerOf(step);
    return () => source.take(reader, size);
  }
  const items = sourceItems(node, flow);
  let taken = 0;
  return async () => {
    taken += size;
    return items.slice(taken - size, taken);
  };
}

function itemRuns(flow: LiveFlow, { node, stream }: LiveStep, given: Given): ItemRuns {
  const activity = name(flow, node);
  const inputs = toInputs(given);
  return new ItemRuns({
    concurrency: node.concurrency ?? defaultConcurrency,
    run: (item, index) => flow.call(activity, { item, index, ...inputs }, node),
    onOutput: (index, output) => stream?.set(index, output),
  });
}

function name(flow: LiveFlow, node: StepNode): string {
  return activityNames[node.kind](flow.graph.name, node.name);
}

function toInputs(given: Given): { readonly inputs?: Given } {
  return Object.keys(given).length === 0 ? {} : { inputs: given };
}

function streamOf({ name: step, stream }: LiveStep): OutputStream {
  if (stream === undefined) throw new Error(`Step ${quote(step)} has no items.`);
  return stream;
}
