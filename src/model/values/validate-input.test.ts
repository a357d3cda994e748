import { describe, expect, test } from 'vitest';
import type { StandardSchema } from '../definition.ts';
import { validateInput } from './validate-input.ts';

type Validate = StandardSchema['~standard']['validate'];
const schema = (validate: Validate): StandardSchema => ({
  '~standard': { version: 1, vendor: 'test', validate },
});

describe('an input', () => {
  test('is returned unchanged without a schema', async () => {
    const input = { a: 1 };
    expect(await validateInput(undefined, input, 'Orchestration "order"')).toBe(input);
  });

  test('is parsed by its schema, synchronously or not', async () => {
    const double: Validate = (value) => ({ value: (value as number) * 2 });
    expect(await validateInput(schema(double), 4, 'x')).toBe(8);
    expect(
      await validateInput(
        schema((value) => Promise.resolve(double(value))),
        4,
        'x',
      ),
    ).toBe(8);
  });

  test('throws INVALID_INPUT with all issues and their paths', async () => {
    const issues = [
      { message: 'expected a number', path: ['lines', 0, { key: 'qty' }] },
      { message: 'too short', path: [] },
      { message: 'missing', path: [Symbol('id')] },
      { message: 'unknown' },
    ];
    await expect(
      validateInput(
        schema(() => ({ issues })),
        {},
        'Orchestration "order"',
      ),
    ).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message:
        'Orchestration "order" got an invalid input: lines[0].qty: expected a number; too short; Symbol(id): missing; unknown.',
    });
  });

  test('shows the first ten of a thousand issues', async () => {
    const issues = Array.from({ length: 1_000 }, (_, index) => ({ message: `problem ${index}` }));
    const refusal = validateInput(
      schema(() => Promise.resolve({ issues })),
      {},
      'x',
    );
    await expect(refusal).rejects.toThrow(/problem 9\.$/);
  });

  test('throws INVALID_INPUT with a cause if the schema throws or is invalid', async () => {
    const boom = new Error('boom');
    const throwing = schema(() => {
      throw boom;
    });
    await expect(validateInput(throwing, 1, 'x')).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      cause: boom,
    });
    for (const broken of [null, 5, {}, { '~standard': {} }]) {
      const refusal = validateInput(broken as unknown as StandardSchema, 1, 'x');
      await expect(refusal).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    }
  });
});
