import { describe, expect, it } from 'vitest';
import { TurnDriver } from '../../test/replay/turn-driver.ts';
import type { StandardSchema } from '../model/definition.ts';
import { orchestration } from './orchestration.ts';

const trimmed: StandardSchema<string> = {
  '~standard': {
    version: 1,
    vendor: 'test',
    validate: (value) =>
      typeof value === 'string'
        ? { value: value.trim() }
        : { issues: [{ message: 'expected text', path: ['name', { key: 0 }] }] },
  },
};

describe('createProgram', () => {
  it('passes the decoded input to the handler', async () => {
    const echo = orchestration('echo', async (_, input: { a: number[] }) => input);
    const run = new TurnDriver(echo);
    await run.start({ a: [1, 2] });
    expect(run.output).toEqual({ a: [1, 2] });
  });

  it('passes undefined to the handler if there is no input', async () => {
    const run = new TurnDriver(orchestration('none', async (_, input) => input === undefined));
    await run.start();
    expect(run.output).toBe(true);
  });

  it('passes the output of the input schema to the handler', async () => {
    const greet = orchestration('greet', async (ctx, name: string) => ctx.call('greet', name), {
      input: trimmed,
    });
    const run = new TurnDriver(greet);
    expect((await run.start('  World ')).at(1)).toMatchObject({ payload: '"World"' });
  });

  it('fails the instance if the schema rejects the input', async () => {
    const greet = orchestration('greet', async (_, name: string) => name, { input: trimmed });
    const run = new TurnDriver(greet);
    await run.start(5);
    expect(run.failure).toMatchObject({ code: 'INVALID_INPUT' });
    expect(run.failure.message).toContain('name[0]: expected text');
  });

  it('accepts a handler that is not async', async () => {
    const run = new TurnDriver(orchestration('plain', (_, n: number) => n + 1));
    await run.start(1);
    expect(run.output).toBe(2);
    const throwing = new TurnDriver(
      orchestration('throwing', () => {
        throw new TypeError('at once');
      }),
    );
    await throwing.start();
    expect(throwing.failure).toMatchObject({ name: 'TypeError', message: 'at once' });
  });
});
