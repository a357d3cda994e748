/** Starts with `event` and `onConflict` at ids that collide, while the processes that start and run them are killed. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Perdure, type Client } from '../../src/index.ts';
import { bundleProgram } from './helpers/bundle-program.ts';
import {
  closed,
  performStart,
  replaceFinally,
  startingResult,
  type CollidingStart,
  type StartOutcome,
} from './helpers/colliding-starts.ts';
import {
  createPostgresLoopStore,
  createSqliteLoopStore,
  type LoopStore,
} from './helpers/loop-store.ts';
import type { StoredState } from './oracles/stored-state.ts';
import type { StartsOptions } from './programs/starts-program.ts';

const processes = 3;

type Line =
  | { readonly line: 'asked'; readonly start: CollidingStart }
  | { readonly line: 'acked'; readonly key: string; readonly outcome: StartOutcome }
  | { readonly line: 'failed'; readonly text: string };

/** A start, how often it was called, and what the last call returned. */
interface Asked {
  readonly start: CollidingStart;
  calls: number;
  outcome?: StartOutcome;
}

interface StartsReport {
  readonly kills: number;
  readonly starts: number;
  /** Starts that were made again, by another process. */
  readonly repeated: number;
  readonly replaced: number;
  readonly conflicts: number;
  /** Connections that were cut while a response was pending. PostgreSQL only. */
  readonly cutAnswers: number;
  readonly seconds: number;
  readonly violations: readonly string[];
}

async function runLoop(options: {
  readonly createStore: () => Promise<LoopStore>;
  readonly kills: number;
  readonly withKeys?: boolean;
}): Promise<StartsReport> {
  const { createStore, kills, withKeys = true } = options;
  const beganAt = performance.now();
  const folder = await mkdtemp(join(tmpdir(), 'perdure-starts-'));
  const loopStore = await createStore();
  const { store, state, faults } = loopStore;
  const program = await bundleProgram('starts-program.ts', folder);
  const children = new Set<ChildProcess>();
  const asked = new Map<string, Asked>();
  const violations: string[] = [];
  let killed = 0;
  let repeated = 0;
  let cutAnswers = 0;

  const run = (name: string, starts: boolean): Promise<unknown> => {
    const argument: StartsOptions = { store, ledger: join(folder, name), name, starts };
    const child = spawn(process.execPath, [program, JSON.stringify(argument)], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      env: { ...process.env, NODE_COMPILE_CACHE: join(folder, 'cache'), NODE_NO_WARNINGS: '1' },
    });
    children.add(child);
    return once(child, 'exit').then(() => children.delete(child));
  };

  try {
    await using perdure = await Perdure.open(store);
    const { client } = perdure;
    /** Makes starts of a killed process again, always if it has got no response. */
    const repeat = async (name: string): Promise<void> => {
      const own = new Map<string, Asked>();
      for (const line of readLines(join(folder, name))) {
        if (line.line === 'asked') own.set(line.start.key, { start: line.start, calls: 1 });
        else if (line.line === 'failed') violations.push(`${name}: ${line.text}`);
        else Object.assign(own.get(line.key) ?? {}, { outcome: line.outcome });
      }
      for (const [key, one] of own) {
        asked.set(key, one);
        // A caller can also repeat a start that succeeded, because the response was lost.
        if (one.outcome !== undefined && Math.random() > 0.2) continue;
        one.calls += 1;
        repeated += 1;
        const outcome = await performStart(client, one.start, { withKeys });
        if (one.outcome !== undefined && one.outcome !== outcome)
          violations.push(`${key} was ${one.outcome}, and ${outcome} when repeated`);
        one.outcome = outcome;
      }
    };
    // A slow machine makes few starts between two kills.
    const isEnough = (): boolean => {
      const all = [...asked.values()];
      const replacing = all.filter(({ start }) => start.kind.startsWith('replace'));
      const hasConflict = all.some(({ outcome }) => outcome === 'conflict');
      return killed >= kills && replacing.length > kills && hasConflict;
    };
    const live = async (lane: number): Promise<void> => {
      for (let life = 0; !isEnough(); life += 1) {
        const name = `p${lane}-${life}`;
        await run(name, true);
        killed += 1;
        await repeat(name);
      }
    };
    const cutting = setInterval(() => (cutAnswers += faults?.cut() ?? 0), 650);
    const lanes = Array.from({ length: processes }, (_, lane) => live(lane));
    await Promise.all(lanes).finally(() => clearInterval(cutting));
    void run('last', false);
    const replaced = await verify(client, state, [...asked.values()], violations);
    const all = [...asked.values()];
    return {
      kills: killed,
      starts: all.length,
      repeated,
      replaced,
      conflicts: all.filter(({ outcome }) => outcome === 'conflict').length,
      cutAnswers,
      seconds: Math.round((performance.now() - beganAt) / 1_000),
      violations,
    };
  } finally {
    for (const child of children) {
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    }
    await loopStore.close();
    await rm(folder, { recursive: true, force: true });
  }
}

function readLines(path: string): readonly Line[] {
  if (!existsSync(path)) return [];
  const complete = readFileSync(path, 'utf8').split('\n').slice(0, -1);
  return complete.map((line) => JSON.parse(line) as Line);
}

/**
 * Compares the starts with the store. Returns the number of replaced executions.
 *
 * S1. An event of a start is received exactly once, however often the start was made, also if a turn made it.
 * S2. A start with `terminateExisting` is one execution, and no other: at most one more per repeat after another start has
 *     replaced it. A start in a turn is never repeated.
 * S3. Of starts with `useExisting` or `reject`, exactly one creates the instance. `reject` succeeds for its input only.
 * S4. Nothing is left: each instance has ended, with its children, and each history ends with its only terminal event.
 */
async function verify(
  client: Client,
  state: StoredState,
  asked: readonly Asked[],
  violations: string[],
): Promise<number> {
  const byId = Map.groupBy(asked, ({ start }) => start.id);
  const idsOf = (prefix: string) => [...byId.keys()].filter((id) => id.startsWith(prefix));
  const keysOf = (kind: CollidingStart['kind']) =>
    asked.filter(({ start }) => start.kind === kind).map(({ start }) => start.key);
  const inTurns = keysOf('turns').map((key) => `${key} in a turn`);

  for (const key of keysOf('turns')) {
    const result = await client.handle(`starting-${key}`).result();
    if (JSON.stringify(result) !== JSON.stringify(startingResult(key)))
      violations.push(`starting-${key} returned ${JSON.stringify(result)}`);
  }

  // S1
  const seen: string[] = [];
  for (const id of ['inbox-0', 'inbox-1', 'inbox-2']) {
    if ((await client.get(id)) === undefined) continue;
    await client.raiseEvent(id, closed);
    seen.push(...((await client.handle(id).result()) as readonly string[]));
  }
  const received = Map.groupBy(seen, (payload) => payload);
  for (const payload of [...keysOf('raise'), ...inTurns]) {
    const times = received.get(payload)?.length ?? 0;
    if (times !== 1) violations.push(`event ${payload} was received ${times} times`);
    received.delete(payload);
  }
  for (const payload of received.keys()) violations.push(`event ${payload} was never raised`);

  // S2
  let replaced = 0;
  const slots = ['slot-0', 'slot-1', 'slot-2', ...idsOf('task-')];
  const begun: string[] = [];
  for (const id of slots) {
    if ((await client.get(id)) === undefined) continue;
    if ((await replaceFinally(client, id)) !== 'ends') violations.push(`${id} was not replaced`);
    const { executionId } = (await client.get(id)) ?? { executionId: 0 };
    replaced += executionId - 1;
    const own = byId.get(id) ?? [];
    const turns = asked.filter(
      ({ start }) => start.kind === 'turns' && `slot-${start.moment % 3}` === id,
    ).length;
    const least = own.length + turns + 1;
    const most = least + own.reduce((sum, { calls }) => sum + calls - 1, 0);
    if (executionId < least || executionId > most)
      violations.push(`${id} has ${executionId} executions instead of ${least} to ${most}`);
    if (id.startsWith('slot')) begun.push(...(await inputsOf(client, id, executionId - 1)));
  }
  const calls = new Map(asked.map(({ start, calls: count }) => [start.key, count]));
  for (const [input, executions] of Map.groupBy(begun, (one) => one)) {
    const most = calls.get(input.replace(/ ends$/, '')) ?? 1;
    if (executions.length > most)
      violations.push(`${input} began ${executions.length} times, ${most} were asked for`);
  }

  // S3
  for (const id of [...idsOf('use'), ...idsOf('reject')]) {
    const winner = (await client.handle(id).result()) as string;
    const own = byId.get(id) ?? [];
    const { executionId } = (await client.get(id)) ?? {};
    if (executionId !== 1) violations.push(`${id} has ${executionId} executions`);
    if (!own.some(({ start }) => start.key === winner) && !inTurns.includes(winner))
      violations.push(`${id} returned ${winner}, which no start gave it`);
    for (const { start, outcome } of own) {
      const isRight = start.kind !== 'reject' || (outcome === 'done') === (start.key === winner);
      if (!isRight || (start.kind !== 'reject' && outcome !== 'done'))
        violations.push(`${id}: the start of ${start.key} was ${outcome}, ${winner} has the id`);
    }
  }

  // S4
  await expect.poll(() => state.unfinished(), { timeout: 60_000, interval: 200 }).toEqual([]);
  await expect.poll(() => state.leftovers(), { timeout: 60_000, interval: 200 }).toEqual([]);
  violations.push(...(await state.brokenHistories()));
  return replaced;
}

/** The inputs of the executions that have begun. */
async function inputsOf(client: Client, id: string, last: number): Promise<readonly string[]> {
  const inputs: string[] = [];
  for (let executionId = 1; executionId <= last; executionId += 1) {
    const { items } = await client.history(id, { executionId, limit: 1 });
    const begun = items[0]?.event;
    if (begun?.kind === 'executionStarted')
      inputs.push(JSON.parse(begun.payload ?? 'null') as string);
  }
  return inputs;
}

// `npm run crash:starts` runs it with 300 kills per store.
const given = Number(process.env['PERDURE_STARTS_KILLS']);
const isLong = process.env['MODE'] === 'starts';

for (const [kind, createStore] of [
  ['SQLite', createSqliteLoopStore],
  ['PostgreSQL', createPostgresLoopStore],
] as const) {
  const kills = given > 0 ? given : isLong ? 300 : 6;
  const timeoutMs = Math.max(300_000, kills * 8_000);
  test(
    `starts that collide create, replace and signal exactly once while processes are killed (${kind}, ${kills} kills)`,
    async () => {
      const report = await runLoop({ createStore, kills });
      if (isLong) process.stderr.write(`${kind} ${JSON.stringify(report)}\n`);
      expect(report.violations).toEqual([]);
      expect(report.kills).toBeGreaterThanOrEqual(kills);
      expect(report.replaced).toBeGreaterThan(kills);
      expect(report.conflicts).toBeGreaterThan(0);
    },
    timeoutMs,
  );
}

test('the loop of colliding starts detects repeats without keys', async () => {
  for (let tries = 0; tries < 5; tries += 1) {
    const { violations } = await runLoop({
      createStore: createSqliteLoopStore,
      kills: 12,
      withKeys: false,
    });
    if (/was received [2-9] times/.test(violations.join('\n'))) return;
  }
  expect.unreachable('no violation was found');
}, 300_000);
