import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { HistoryEvent } from 'perdure';
import { flow } from 'perdure/flows';
import { checkReplay } from 'perdure/testing';
import { recordedFlows } from './helpers/recorded-flows.ts';

const folder = join(import.meta.dirname, 'histories');
const readHistory = (name: string) =>
  JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8')) as readonly HistoryEvent[];

describe.each(recordedFlows)('the recorded history $name', ({ name, definition }) => {
  const history = readHistory(name);

  it('a recorded history replays with the current interpreter', async () => {
    expect(
      await checkReplay({ definition: definition.orchestration, history, instanceId: name }),
    ).toEqual({ ok: true });
  });

  it('a recorded history replays from its own graph with a redefined flow', async () => {
    const other = flow(name)
      .step('another', () => 1)
      .output();
    expect(
      await checkReplay({ definition: other.orchestration, history, instanceId: name }),
    ).toEqual({ ok: true });
  });

  it('a recorded history with a changed graph fails the replay check', async () => {
    const [started, ...rest] = history;
    if (started?.kind !== 'executionStarted') throw new Error('It does not begin.');
    const run = JSON.parse(started.payload ?? '{}') as { flow: { steps: unknown[] } };
    run.flow.steps.shift();
    const changed = { ...started, payload: JSON.stringify(run) };
    const check = checkReplay({
      definition: definition.orchestration,
      history: [changed, ...rest],
      instanceId: name,
    });
    await expect(check.then(({ ok }) => ok)).resolves.toBe(false);
  });
});

it('every file in histories/ belongs to a recorded flow', () => {
  const names = recordedFlows.map(({ name }) => `${name}.json`).sort();
  expect(readdirSync(folder).sort()).toEqual(names);
});
