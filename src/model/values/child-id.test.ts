import { describe, expect, it } from 'vitest';
import { checkInstanceId, maxIdBytes } from './names.ts';
import { defaultChildId } from './child-id.ts';

describe('the default id of a child', () => {
  it('contains the parent id, the execution and the operation', () => {
    expect(defaultChildId({ instanceId: 'order-1', executionId: 2, operation: 7 })).toBe(
      'order-1/2.7',
    );
  });

  it('is valid and unique under a parent id of maximum length', () => {
    for (const character of ['x', 'ü', '漢', '🧵']) {
      const longest = character.repeat(Math.floor(maxIdBytes / Buffer.byteLength(character)));
      const other = `${longest.slice(0, -character.length)}y`;
      const ids = [longest, other].map((instanceId) =>
        defaultChildId({ instanceId, executionId: 1, operation: 1 }),
      );
      for (const id of ids) expect(checkInstanceId(id)).toBe(id);
      expect(new Set(ids).size).toBe(2);
    }
  });

  it('is valid over many generations', () => {
    let id = 'root';
    for (let generation = 0; generation < 500; generation++) {
      id = defaultChildId({ instanceId: id, executionId: 1, operation: generation });
      expect(checkInstanceId(id)).toBe(id);
    }
  });
});
