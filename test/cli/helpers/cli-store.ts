import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { activity, event, orchestration, Perdure, silentLogger, task } from 'perdure';
import { flow } from 'perdure/flows';
import { createToken, serve } from 'perdure/server';
import { createDatabase } from '../../postgres/helpers/server.ts';

/** A store with a worker and a server, and the options that choose it. */
export interface CliStore extends AsyncDisposable {
  readonly perdure: Perdure;
  /** A directory for files of the test. */
  readonly directory: string;
  /** The path or URL of the store. */
  readonly store: string;
  readonly url: string;
  readonly tokens: Readonly<Record<'read' | 'operate' | 'admin', string>>;
}

const go = event<unknown>('go');
const echo = activity('echo', async (_, input: unknown) => input);
const fail = activity('fail', async () => {
  throw Object.assign(new Error('card declined'), { code: 'CARD_DECLINED' });
});

/** Completes with its input. */
export const hello = orchestration('hello', async (ctx, input: unknown) => ctx.call(echo, input));
/** Fails in an activity. */
export const failing = orchestration('failing', async (ctx) => ctx.call(fail, undefined));
/** Waits for the event `go`. */
export const waiting = orchestration('waiting', async (ctx) => {
  ctx.onUpdate('add', {
    validate: (value) => typeof value === 'number' || 'not a number',
    handle: (value) => Number(value) + 1,
  });
  return ctx.waitFor(go);
});
/** Has a child that waits. */
export const parent = orchestration('parent', async (ctx) =>
  ctx.child(waiting, undefined, { id: `${ctx.instanceId}-child` }),
);
/** Continues as new twice, and counts in its state. */
export const counting = orchestration('counting', async (ctx, count: number) => {
  ctx.state.set('page', { n: count });
  if (count < 3) return ctx.continueAsNew(count + 1);
  ctx.state.set('note', 'a\u001B[31mb');
  return count;
});
/** Completes with its input. */
export const sync = task('sync', async (_, input: unknown) => input);
/** Emits the items of its input. */
export const talk = task('talk', async (ctx, chunks: readonly unknown[]) => {
  for (const chunk of chunks) await ctx.emit(chunk);
});
/** Completes with 1. */
export const pipeline = flow('pipeline')
  .step('first', () => 1)
  .output();

/** Opens a store with a worker that has one definition of each kind, and a server with three tokens. */
export async function openCliStore(kind: 'sqlite' | 'postgres' = 'sqlite'): Promise<CliStore> {
  const directory = mkdtempSync(join(tmpdir(), 'perdure-cli-'));
  const database = kind === 'postgres' ? await createDatabase() : undefined;
  const store = database?.url ?? join(directory, 'store.db');
  const perdure = await Perdure.open(store, { logger: silentLogger });
  await perdure.startWorker({
    name: 'cli-worker',
    orchestrations: [hello, failing, waiting, parent, counting],
    activities: [echo, fail],
    tasks: [sync, talk],
    flows: [pipeline],
  });
  const roles = ['read', 'operate', 'admin'] as const;
  const created = roles.map((role) => ({ role, ...createToken() }));
  const server = await serve(perdure, {
    port: 0,
    logger: silentLogger,
    tokens: created.map(({ role, sha256 }) => ({ name: role, role, sha256 })),
  });
  return {
    perdure,
    directory,
    store,
    url: server.url,
    tokens: Object.fromEntries(created.map(({ role, token }) => [role, token])) as never,
    [Symbol.asyncDispose]: async () => {
      await server.close();
      await perdure.close();
      await database?.drop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
