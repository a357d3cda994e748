import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Perdure, type Client, type StartWorkerOptions } from 'perdure';
import { readFlowRun, signalFlow } from 'perdure/flows';
import { testOptions } from 'perdure/testing';
import { engineStores, type EngineStore, type StoreKind } from '../engine/engine-store.ts';
import { flowSpec, type FlowSpec } from './helpers/flow-spec.ts';
import { Gates, toFlow, toInput } from './helpers/gated-flow.ts';
import { ReferenceFlow, type Action, type Predicted } from './helpers/reference-flow.ts';

const pollOptions = { timeout: 5_000, interval: 1 };

/** Runs a flow to its end, one action at a time, and compares it with the reference after each. */
async function checkRun(
  spec: FlowSpec,
  store: EngineStore,
  worker: StartWorkerOptions,
): Promise<void> {
  const gates = new Gates();
  const definition = toFlow(spec, gates);
  await using perdure = await Perdure.open(await store.open());
  await perdure.startWorker({ ...worker, flows: [definition], shutdownGrace: 0 });
  const { client } = perdure;
  const run = await client.runFlow(definition, toInput(spec));
  const reference = new ReferenceFlow(spec);
  await expectAgreement(client, run.id, reference);
  for (let turn = 0; !reference.isOver; turn += 1) {
    const action = choose(reference, spec.choices[turn]);
    const attempt = 'step' in action ? reference.attemptOf(action) : 1;
    reference.apply(action);
    await perform(client, run.id, { action, attempt, gates });
    await expectAgreement(client, run.id, reference);
  }
  const end = await client.wait(run.id, { timeout: '10s' });
  expect(end.status).toBe(reference.predict().status);
}

/** Prefers successes and signals, so that runs get beyond their first steps. */
function choose(reference: ReferenceFlow, choice: number | undefined): Action {
  const actions = reference.actions();
  const good = actions.filter(({ kind }) => kind === 'succeed' || kind === 'signal');
  const pool = choice === undefined || choice % 4 > 0 ? good : actions;
  const chosen = pool[(choice ?? 0) % Math.max(pool.length, 1)] ?? actions[0];
  if (chosen === undefined) throw new Error('Nothing can happen, but the run is not over.');
  return chosen;
}

async function perform(
  client: Client,
  id: string,
  what: { readonly action: Action; readonly attempt: number; readonly gates: Gates },
): Promise<void> {
  const { action, attempt, gates } = what;
  switch (action.kind) {
    case 'cancel':
      await client.cancel(id, { reason: 'random' });
      return;
    case 'signal':
      await signalFlow(client, id, `signal ${action.step}`);
      return;
    default:
      await expect
        .poll(() => gates.open(Gates.key(action, attempt), action.kind), pollOptions)
        .toBe(true);
  }
}

async function expectAgreement(
  client: Client,
  id: string,
  reference: ReferenceFlow,
): Promise<void> {
  await expect.poll(() => observe(client, id), pollOptions).toEqual(reference.predict());
}

async function observe(client: Client, id: string): Promise<Predicted> {
  const run = await readFlowRun(client, id);
  return {
    status: run?.status as Predicted['status'],
    steps: (run?.steps ?? []).map(({ status, items }) => ({
      status,
      ...(items !== undefined && { items }),
    })),
    onFail: run?.onFail?.status === 'completed',
  };
}

// `npm run test:modes` runs more of them where the mode is not the default.
const isLong = process.env['MODE'] === 'all-modes';

const modes: readonly (readonly [string, StoreKind, StartWorkerOptions])[] = [
  ['all fast paths', 'SQLite', {}],
  ['a replay after every turn', 'SQLite', testOptions({ alwaysReplay: true })],
  ['PostgreSQL', 'PostgreSQL', {}],
];

describe.each(modes)('random flows (%s)', (mode, kind, worker) => {
  const newStore = engineStores(kind);
  const numRuns = isLong || mode === 'all fast paths' ? 60 : 30;

  it('a random flow has the states that the reference predicts after every action', async () => {
    const store = await newStore();
    onTestFinished(() => store.remove());
    await fc.assert(
      fc.asyncProperty(flowSpec, (spec) => checkRun(spec, store, worker)),
      // Shrinking would wait for the full timeout at every mismatch.
      { numRuns, endOnFailure: true },
    );
  }, 120_000);
});
