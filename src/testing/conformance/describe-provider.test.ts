import { describe, expect, it } from 'vitest';
import { isPerdureError } from '../../model/failures/errors.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import { openSqlite } from '../../providers/sqlite/provider.ts';
import { capabilities, conformanceCases } from './conformance-cases.ts';
import { describeProvider, type TestRunner } from './describe-provider.ts';
import { runCase, type ProviderUnderTest } from './run-case.ts';

const inMemory: ProviderUnderTest = {
  name: 'a store',
  create: ({ clock }) => openSqlite({ path: ':memory:', clock }),
};

/** A runner that records the registered cases. */
function recorder() {
  const groups: string[] = [];
  const registered = new Map<string, () => Promise<void>>();
  const skipped: string[] = [];
  const add = (title: string, body: () => Promise<void>) => void registered.set(title, body);
  const skip = (title: string) => void skipped.push(title);
  const runner: TestRunner = {
    describe(title, body) {
      groups.push(title);
      body();
    },
    it: Object.assign(add, { skip }),
  };
  return { runner, groups, registered, skipped };
}

function codeOf(action: () => unknown): unknown {
  try {
    return action();
  } catch (error) {
    return isPerdureError(error) ? error.code : error;
  }
}

describe('describeProvider', () => {
  it('registers every case of every capability by default', () => {
    const { runner, groups, registered, skipped } = recorder();
    describeProvider(inMemory, runner);
    expect(registered.size).toBe(conformanceCases.length);
    expect(skipped).toEqual([]);
    expect(groups).toEqual([
      'a store conforms to the provider contract',
      ...capabilities.map(({ title }) => title),
    ]);
  });

  it('registers cases that run, each under a title that ends with its id', async () => {
    const { runner, registered } = recorder();
    describeProvider(inMemory, runner);
    const [title, body] =
      [...registered].find(([each]) => each.endsWith('[create/inserts-a-pending-row]')) ?? [];
    expect(title).toMatch(/^a new instance is pending/);
    await body?.();
  });

  it('skips a case with its reason in the title', () => {
    const { runner, registered, skipped } = recorder();
    const skip = [{ case: 'shared/state-survives-a-restart', reason: 'it is in memory' }];
    describeProvider({ ...inMemory, skip }, runner);
    expect(registered.size).toBe(conformanceCases.length - 1);
    expect(skipped).toEqual([expect.stringMatching(/skipped: it is in memory$/)]);
  });

  it('throws INVALID_OPTION for a skip without a reason or of an unknown case', () => {
    const withSkip = (skip: ProviderUnderTest['skip']) => () =>
      describeProvider({ ...inMemory, ...(skip && { skip }) }, recorder().runner);
    const known = 'close/can-be-repeated';
    expect(codeOf(withSkip([{ case: known, reason: ' ' }]))).toBe('INVALID_OPTION');
    expect(codeOf(withSkip([{ case: 'close/never', reason: 'why' }]))).toBe('INVALID_OPTION');
  });

  it('throws if there is no test runner', () => {
    expect(() => describeProvider(inMemory)).toThrow(/pass `{ describe, it }`/);
  });
});

describe('runCase', () => {
  it('closes the store even if the case fails', async () => {
    const opened: Provider[] = [];
    const watched: ProviderUnderTest = {
      ...inMemory,
      async create(options) {
        const provider = await inMemory.create(options);
        opened.push(provider);
        return provider;
      },
    };
    const failing = { id: 'x/y', title: 'fails', run: () => Promise.reject(new Error('failed')) };
    await expect(runCase(failing, watched)).rejects.toThrow('failed');
    const afterwards: unknown = await opened[0]?.getInstances([]).catch((error: unknown) => error);
    expect(isPerdureError(afterwards, 'CLOSED')).toBe(true);
  });

  it('fails a case that requires a missing `reopen` or `corrupt`', async () => {
    for (const [id, option] of [
      ['shared/state-survives-a-restart', '`reopen`'],
      ['data/corrupt-events-harm-no-neighbour', '`corrupt`'],
    ] as const) {
      const needy = conformanceCases.find((each) => each.id === id)!;
      await expect(runCase(needy, inMemory)).rejects.toThrow(`This case requires ${option}`);
    }
  });
});
