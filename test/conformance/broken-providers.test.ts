import assert from 'node:assert/strict';
import Database from 'better-sqlite3';
import { afterAll, describe, expect, it } from 'vitest';
import type { Clock } from '../../src/model/clock.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { conformanceCases } from '../../src/testing/conformance/conformance-cases.ts';
import { runCase } from '../../src/testing/conformance/run-case.ts';
import { brokenProviders } from './broken/all-broken-providers.ts';
import type { BrokenProvider } from './broken/broken-provider.ts';
import { SqliteFiles } from './sqlite-files.ts';

const files = new SqliteFiles();
afterAll(() => files.remove());

/** Removes one guard from a provider. */
function breakProvider(
  provider: Provider,
  { override }: BrokenProvider,
  clock: Clock,
): Provider & { readonly intact: Provider } {
  const db = new Database(files.pathOf(provider));
  const broken = { ...provider, ...override({ provider, db, clock }) };
  return {
    intact: provider,
    ...broken,
    async close() {
      try {
        await broken.close();
      } finally {
        await provider.close();
        db.close();
      }
    },
  };
}

function findCase(id: string) {
  const found = conformanceCases.find((each) => each.id === id);
  assert.ok(found, `${id} is no case`);
  return found;
}

// The same cases pass on the intact provider: sqlite.test.ts runs all of them on such files.
describe('the conformance suite rejects a provider in which', () => {
  for (const broken of brokenProviders) {
    it.concurrent(`${broken.fault} [${broken.rejectedBy}]`, async () => {
      const conformanceCase = findCase(broken.rejectedBy);
      const { create, reopen } = files;
      let first: Provider | undefined;
      const rejection: unknown = await runCase(conformanceCase, {
        name: 'broken',
        create: async (options) => {
          const provider = breakProvider(await create(options), broken, options.clock);
          first = provider.intact;
          return provider;
        },
        reopen: async ({ clock }) => {
          assert.ok(first);
          return breakProvider(await reopen({ clock, first }), broken, clock);
        },
      }).catch((error: unknown) => error);
      // An assertion of the case, not an error of the broken provider.
      expect(rejection).toBeInstanceOf(assert.AssertionError);
      // All cases run concurrently, so each may wait for all others.
    }, 300_000);
  }
});

describe('the list of broken providers', () => {
  it('every broken provider has a distinct fault', () => {
    const faults = brokenProviders.map(({ fault }) => fault);
    expect(new Set(faults).size).toBe(faults.length);
    expect(faults.length).toBeGreaterThanOrEqual(20);
  });
});
