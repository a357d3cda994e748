import { expect, test } from 'vitest';
import { nodeVersionProblem } from './require-node.ts';

test('the oldest supported Node.js and every newer one are accepted', () => {
  for (const version of ['v22.0.0', 'v22.12.1', 'v24.21.0', 'v100.0.0', process.version]) {
    expect(nodeVersionProblem(version)).toBeUndefined();
  }
});

test('an older Node.js returns a message with both versions', () => {
  expect(nodeVersionProblem('v20.20.2')).toBe(
    'Perdure needs Node.js 22 or newer; this is v20.20.2. Install a newer Node.js and start again.',
  );
  expect(nodeVersionProblem('v4.9.1')).toContain('this is v4.9.1');
});

test('a version that cannot be parsed returns a message', () => {
  expect(nodeVersionProblem('unknown')).toContain('this is unknown');
});
