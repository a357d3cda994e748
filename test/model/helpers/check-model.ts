import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import type { Clock } from '../../../src/model/clock.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { openSqlite } from '../../../src/providers/sqlite/provider.ts';
import { FakeClock } from '../../../src/testing/fake-clock.ts';
import { Coverage } from './coverage.ts';
import { scenarios, type Profile, type Scenario } from './scenario.ts';
import { World } from './world.ts';
import { replacePlatform } from '../../../src/model/platform.ts';

export interface ModelCheckParams {
  readonly profile: Profile;
  readonly runs: number;
  /** Both as printed by a failed check. */
  readonly seed?: number | undefined;
  readonly path?: string | undefined;
  /** Default: an intact SQLite store. */
  readonly openStore?: OpenStore;
  /** Skip the shrinking of a failed scenario. Default: false. */
  readonly asFound?: boolean;
}

export interface ModelCheckReport {
  readonly runs: number;
  readonly seed: number;
  readonly seconds: number;
  /** The violations of the smallest failed scenario, and the command that reproduces it. */
  readonly failure: string | undefined;
  /** How often the scenarios led to each situation. */
  readonly coverage: Coverage;
}

/** Opens a provider on a database. Of `takeovers`, each process has its own. */
export type OpenStore = (clock: Clock, path: string) => Promise<Provider>;

// Opening a store takes longer than a scenario, and a scenario without violations leaves no data.
const worldsPerStore = 50;

/** Runs random scenarios until one fails, and shrinks it. */
export async function checkModel(params: ModelCheckParams): Promise<ModelCheckReport> {
  const { profile, runs: numRuns, seed, path } = params;
  const startedAt = performance.now();
  const stores = new Stores(profile, params.openStore);
  const coverage = new Coverage();
  let runs = 0;
  try {
    const property = fc.asyncProperty(scenarios(profile), async (scenario) => {
      runs += 1;
      const world = await runScenario(scenario, stores, coverage);
      if (world.violations.length > 0) throw new Error(toText(world));
    });
    const details = await fc.check(property, {
      numRuns,
      ...(seed !== undefined && { seed }),
      ...(path !== undefined && { path }),
      endOnFailure: params.asFound ?? false,
    });
    const { counterexamplePath, counterexample, errorInstance } = details;
    const failure = details.failed
      ? [
          `npm run model -- --profile ${profile} --seed=${details.seed} --path ${counterexamplePath ?? ''}`,
          JSON.stringify(counterexample?.[0]),
          errorInstance instanceof Error ? errorInstance.message : String(errorInstance),
        ].join('\n')
      : undefined;
    const seconds = (performance.now() - startedAt) / 1_000;
    return { runs, seed: details.seed, seconds, failure, coverage };
  } finally {
    await stores.close();
  }
}

/** Runs one scenario in a separate world. */
export async function runScenario(
  scenario: Scenario,
  stores: Stores,
  coverage?: Coverage,
): Promise<World> {
  const { store, clock, rests, prefix, openOwn } = await stores.take();
  const restore = replacePlatform({ random: seededRandom(scenario.seed) });
  const world = new World({ scenario, store, clock, prefix, coverage, openOwn });
  rests.current = () => world.rest();
  try {
    await world.run();
  } finally {
    restore();
    if (world.violations.length > 0) {
      world.abandon();
      await stores.discard();
    }
  }
  return world;
}

/** Provides each world with a store, and reuses stores. */
export class Stores {
  readonly #open: OpenStore;
  /** In `takeovers`, each process opens the same file. A memory database is faster. */
  readonly #folder: string | undefined;
  #store: Provider | undefined;
  #own: Provider[] = [];
  #path = ':memory:';
  #rests: { current: () => Promise<void> } = { current: () => Promise.resolve() };
  #clock = new FakeClock();
  #worlds = 0;

  constructor(profile: Profile, open: OpenStore = openIntact) {
    this.#open = open;
    if (profile === 'takeovers') this.#folder = mkdtempSync(join(tmpdir(), 'perdure-model-'));
  }

  async take() {
    if (this.#worlds % worldsPerStore === 0) await this.discard();
    this.#worlds += 1;
    if (this.#store === undefined) {
      const rests = { current: () => Promise.resolve() };
      this.#rests = rests;
      this.#clock = new FakeClock({ settle: () => rests.current() });
      if (this.#folder !== undefined) this.#path = join(this.#folder, `${this.#worlds}.db`);
      this.#store = await this.#open(this.#clock, this.#path);
    }
    const prefix = `w${this.#worlds}-`;
    const openOwn = async (index: number): Promise<Provider> =>
      (this.#own[index] ??= await this.#open(this.#clock, this.#path));
    return {
      store: this.#store,
      clock: this.#clock,
      rests: this.#rests,
      prefix,
      openOwn: this.#folder === undefined ? undefined : openOwn,
    };
  }

  async discard(): Promise<void> {
    const store = this.#store;
    this.#store = undefined;
    for (const own of this.#own.splice(0)) await own.close();
    await store?.close();
  }

  async close(): Promise<void> {
    await this.discard();
    if (this.#folder !== undefined) rmSync(this.#folder, { recursive: true, force: true });
  }
}

// Polling would turn commits of other providers into hints at times that depend on the load.
const noPollMs = 2 ** 31 - 1;

function openIntact(clock: Clock, path: string): Promise<Provider> {
  return openSqlite({ path, clock, synchronous: 'normal', pollMs: noPollMs });
}

/** xorshift: the runtime draws the same jitter in every run of a scenario. */
function seededRandom(seed: number): () => number {
  let state = seed + 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

function toText({ violations, trace }: World): string {
  return ['', ...violations, '', 'What happened:', ...trace].join('\n');
}
